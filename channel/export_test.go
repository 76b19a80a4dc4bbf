package channel

import "github.com/ferry-fleet/ferry"

// SetStep makes f be called between the steps of a write.
func (c *Channel) SetStep(f func(step string)) { c.at = f }

// DecodeBody is decodeBody.
func DecodeBody(t ferry.Type, body []byte) (ferry.Body, error) { return decodeBody(t, body) }

// EncodeBody is encodeBody.
func EncodeBody(b ferry.Body) ([]byte, error) { return encodeBody(b) }

// Misfit is misfit.
func Misfit(name string) string { return misfit(name) }

// Frame gives the frame of a record of this machine.
func Frame(data []byte) []byte { return appendFrame(nil, frame{data: data, own: true}) }

// ParseFrame is parseFrame.
func ParseFrame(b []byte) (data []byte, size int, ok bool) {
	f, n, ok := parseFrame(b)
	return f.data, n, ok
}
