package ferry

// Beat is the one file that a writer replaces: that it is alive, what it runs and what it has seen. It is no evidence, so
// it is in no chain.
type Beat struct {
	Epoch   uint32     `json:"epoch"`
	Boot    int64      `json:"boot"`    // how often the writer's process has begun; a higher one outranks every counter
	Counter int64      `json:"counter"` // of this boot
	Seq     uint64     `json:"seq"`     // the writer's own head
	ID      RecordID   `json:"id"`
	Running []RecordID `json:"running,omitempty"` // its live starts
	Slots   int64      `json:"slots"`             // free ones
	Paused  bool       `json:"paused,omitempty"`
	Saw     []Head     `json:"saw,omitempty"`
	Echo    []Echo     `json:"echo,omitempty"`
	Lines   []string   `json:"lines,omitempty"` // the last lines of what runs, redacted
}

// Echo answers the newest record or beat of another writer: how long ago it came in, so that the other can measure the
// way there and back on its own clock.
type Echo struct {
	Writer WriterID `json:"writer"`
	Seq    uint64   `json:"seq"`
	Boot   int64    `json:"boot"`
	Beat   int64    `json:"beat"`
	Held   int64    `json:"held_ms"`
}

// After reports whether b outranks a beat that is known of the same writer.
func (b *Beat) After(known *Beat) bool {
	switch {
	case known == nil:
		return true
	case b.Epoch != known.Epoch:
		return b.Epoch > known.Epoch
	case b.Boot != known.Boot:
		return b.Boot > known.Boot
	}
	return b.Counter > known.Counter
}
