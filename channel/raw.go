package channel

import (
	"context"
	"fmt"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// Decode gives the vocabulary's form of a record whose signature holds, whoever wrote it. A body that cannot be read leaves
// Body nil, and why says so.
func Decode(v sign.Verified) (rec ferry.Record, why string) {
	p := parsed{head: v.Header(), id: v.ID(), body: v.Body(), size: len(v.Bytes())}
	return p.record()
}

// Raw calls each with the exact bytes of every record that this machine holds, in the order in which they came. The bytes
// are good until each returns.
func (c *Channel) Raw(ctx context.Context, each func(file []byte) error) error {
	_, _, err := c.store.scan(0, func(f frame) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return each(f.data)
	})
	if err != nil {
		return fmt.Errorf("read the records of %s: %w", c.id.Short(), err)
	}
	return nil
}
