package ferry

// Types lists the types of format v1.
func Types() []Type {
	return []Type{
		TypeRoot, TypeAdmit, TypeRevoke, TypeReadmit, TypeDelegate, TypeInvite, TypePolicy, TypeCheckpoint, TypeInventory,
		TypeSeal, TypeRedact, TypeForkProof, TypeAnomaly, TypeOrder, TypeClaim, TypeStart, TypeRun, TypeStop, TypeRetire,
		TypeReassign, TypeResult, TypeVerdict, TypeApprove, TypeLanded, TypeCancel, TypeInterrupt, TypeQuestion, TypeAnswer,
		TypeNote,
	}
}

// New gives an empty body for a type, to decode into, or nil when this
// version does not know the type.
func New(t Type) Body {
	switch t {
	case TypeRoot:
		return &Root{}
	case TypeAdmit:
		return &Admit{}
	case TypeRevoke:
		return &Revoke{}
	case TypeReadmit:
		return &Readmit{}
	case TypeDelegate:
		return &Delegate{}
	case TypeInvite:
		return &Invite{}
	case TypePolicy:
		return &Policy{}
	case TypeCheckpoint:
		return &Checkpoint{}
	case TypeInventory:
		return &Inventory{}
	case TypeSeal:
		return &Seal{}
	case TypeRedact:
		return &Redact{}
	case TypeForkProof:
		return &ForkProof{}
	case TypeAnomaly:
		return &Anomaly{}
	case TypeRetire:
		return &Retire{}
	case TypeReassign:
		return &Reassign{}
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

// Type gives TypeRevoke.
func (*Revoke) Type() Type { return TypeRevoke }

// Subject gives the zero id: it is about the channel.
func (*Revoke) Subject() RecordID { return RecordID{} }

// Type gives TypeReadmit.
func (*Readmit) Type() Type { return TypeReadmit }

// Subject gives the zero id: it is about the channel.
func (*Readmit) Subject() RecordID { return RecordID{} }

// Type gives TypeDelegate.
func (*Delegate) Type() Type { return TypeDelegate }

// Subject gives the zero id: it is about the channel.
func (*Delegate) Subject() RecordID { return RecordID{} }

// Type gives TypeInvite.
func (*Invite) Type() Type { return TypeInvite }

// Subject gives the zero id: it is about the channel.
func (*Invite) Subject() RecordID { return RecordID{} }

// Type gives TypePolicy.
func (*Policy) Type() Type { return TypePolicy }

// Subject gives the zero id: it is about the channel.
func (*Policy) Subject() RecordID { return RecordID{} }

// Type gives TypeCheckpoint.
func (*Checkpoint) Type() Type { return TypeCheckpoint }

// Subject gives the zero id: it is about the channel.
func (*Checkpoint) Subject() RecordID { return RecordID{} }

// Type gives TypeInventory.
func (*Inventory) Type() Type { return TypeInventory }

// Subject gives the zero id: it is about the channel.
func (*Inventory) Subject() RecordID { return RecordID{} }

// Type gives TypeSeal.
func (*Seal) Type() Type { return TypeSeal }

// Subject gives the zero id: it is about the channel.
func (*Seal) Subject() RecordID { return RecordID{} }

// Type gives TypeRedact.
func (*Redact) Type() Type { return TypeRedact }

// Subject gives the zero id: it is about the channel.
func (*Redact) Subject() RecordID { return RecordID{} }

// Type gives TypeForkProof.
func (*ForkProof) Type() Type { return TypeForkProof }

// Subject gives the zero id: it is about the channel.
func (*ForkProof) Subject() RecordID { return RecordID{} }

// Type gives TypeAnomaly.
func (*Anomaly) Type() Type { return TypeAnomaly }

// Subject gives the zero id: it is about the channel.
func (*Anomaly) Subject() RecordID { return RecordID{} }

// Type gives TypeRetire.
func (*Retire) Type() Type { return TypeRetire }

// Subject gives the order.
func (b *Retire) Subject() RecordID { return b.Order }

// Type gives TypeReassign.
func (*Reassign) Type() Type { return TypeReassign }

// Subject gives the order.
func (b *Reassign) Subject() RecordID { return b.Order }

// Type gives the type of the record that is not understood.
func (b *Opaque) Type() Type { return b.Is }

// Subject gives the order, where one can be read.
func (b *Opaque) Subject() RecordID { return b.Order }
