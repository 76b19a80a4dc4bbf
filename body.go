package ferry

// New gives an empty body for a type, to decode into, or nil when this
// version does not know the type.
func New(t Type) Body {
	switch t {
	case TypeRoot:
		return &Root{}
	case TypeAdmit:
		return &Admit{}
	case TypeOrder:
		return &Order{}
	case TypeClaim:
		return &Claim{}
	case TypeStart:
		return &Start{}
	case TypeRun:
		return &Run{}
	case TypeStop:
		return &Stop{}
	case TypeResult:
		return &Result{}
	case TypeVerdict:
		return &Verdict{}
	case TypeApprove:
		return &Approve{}
	case TypeLanded:
		return &Landed{}
	case TypeCancel:
		return &Cancel{}
	case TypeInterrupt:
		return &Interrupt{}
	case TypeQuestion:
		return &Question{}
	case TypeAnswer:
		return &Answer{}
	case TypeNote:
		return &Note{}
	}
	return nil
}

// Type gives TypeRoot.
func (*Root) Type() Type { return TypeRoot }

// Subject gives the zero id: it is about the channel.
func (*Root) Subject() RecordID { return RecordID{} }

// Type gives TypeAdmit.
func (*Admit) Type() Type { return TypeAdmit }

// Subject gives the zero id: it is about the channel.
func (*Admit) Subject() RecordID { return RecordID{} }

// Type gives TypeOrder.
func (*Order) Type() Type { return TypeOrder }

// Subject gives the zero id: an order is its own subject, by its record id.
func (*Order) Subject() RecordID { return RecordID{} }

// Type gives TypeClaim.
func (*Claim) Type() Type { return TypeClaim }

// Subject gives the order.
func (b *Claim) Subject() RecordID { return b.Order }

// Type gives TypeStart.
func (*Start) Type() Type { return TypeStart }

// Subject gives the order.
func (b *Start) Subject() RecordID { return b.Order }

// Type gives TypeRun.
func (*Run) Type() Type { return TypeRun }

// Subject gives the order.
func (b *Run) Subject() RecordID { return b.Order }

// Type gives TypeStop.
func (*Stop) Type() Type { return TypeStop }

// Subject gives the order.
func (b *Stop) Subject() RecordID { return b.Order }

// Type gives TypeResult.
func (*Result) Type() Type { return TypeResult }

// Subject gives the order.
func (b *Result) Subject() RecordID { return b.Order }

// Type gives TypeVerdict.
func (*Verdict) Type() Type { return TypeVerdict }

// Subject gives the order.
func (b *Verdict) Subject() RecordID { return b.Order }

// Type gives TypeApprove.
func (*Approve) Type() Type { return TypeApprove }

// Subject gives the order.
func (b *Approve) Subject() RecordID { return b.Order }

// Type gives TypeLanded.
func (*Landed) Type() Type { return TypeLanded }

// Subject gives the order.
func (b *Landed) Subject() RecordID { return b.Order }

// Type gives TypeCancel.
func (*Cancel) Type() Type { return TypeCancel }

// Subject gives the order.
func (b *Cancel) Subject() RecordID { return b.Order }

// Type gives TypeInterrupt.
func (*Interrupt) Type() Type { return TypeInterrupt }

// Subject gives the order.
func (b *Interrupt) Subject() RecordID { return b.Order }

// Type gives TypeQuestion.
func (*Question) Type() Type { return TypeQuestion }

// Subject gives the order.
func (b *Question) Subject() RecordID { return b.Order }

// Type gives TypeAnswer.
func (*Answer) Type() Type { return TypeAnswer }

// Subject gives the order.
func (b *Answer) Subject() RecordID { return b.Order }

// Type gives TypeNote.
func (*Note) Type() Type { return TypeNote }

// Subject gives the order.
func (b *Note) Subject() RecordID { return b.Order }
