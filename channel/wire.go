package channel

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/sign"
)

var errUnknownType = errors.New("this version does not know the type")

// decodeBody reads the body of a record and checks everything that does not depend on other records.
func decodeBody(t ferry.Type, body []byte) (ferry.Body, error) {
	b := ferry.New(t)
	if b == nil {
		return nil, fmt.Errorf("type %s: %w", t, errUnknownType)
	}
	if _, err := sign.DecodeJSON(body, b, unknownFields(t)); err != nil {
		return nil, fmt.Errorf("body of %s: %w", t, err)
	}
	if err := checkBody(b); err != nil {
		return nil, fmt.Errorf("body of %s: %w", t, err)
	}
	return b, nil
}

// encodeBody is the inverse of decodeBody, and refuses what that would refuse.
func encodeBody(b ferry.Body) ([]byte, error) {
	if err := checkBody(b); err != nil {
		return nil, fmt.Errorf("%s: %w", b.Type(), err)
	}
	body, err := sign.EncodeJSON(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Type(), err)
	}
	if len(body) > sign.MaxBody {
		return nil, fmt.Errorf("%s: the body has %d bytes, the limit of a record is %d; shorten its text or its lists", b.Type(), len(body), sign.MaxBody)
	}
	return body, nil
}

// unknownFields refuses a field that this version does not know where it could change what others may do.
func unknownFields(t ferry.Type) sign.UnknownFields {
	switch t {
	case ferry.TypeRoot, ferry.TypeAdmit, ferry.TypeRevoke, ferry.TypeReadmit, ferry.TypeDelegate, ferry.TypeInvite,
		ferry.TypePolicy, ferry.TypeRedact, ferry.TypeVerdict, ferry.TypeApprove:
		return sign.Refuse
	}
	return sign.Ignore
}

func checkBody(b ferry.Body) error {
	switch b := b.(type) {
	case *ferry.Root:
		_, err := authority.CheckMember(b.Master)
		return err
	case *ferry.Admit:
		_, err := authority.CheckMember(b.Member)
		return err
	case *ferry.Order:
		if err := b.Check(); err != nil {
			return err
		}
	case *ferry.Note, *ferry.Revoke, *ferry.Readmit, *ferry.Delegate, *ferry.Invite, *ferry.Policy, *ferry.Checkpoint,
		*ferry.Inventory, *ferry.Seal, *ferry.Redact, *ferry.ForkProof, *ferry.Anomaly:
	default:
		if b.Subject().IsZero() {
			return errors.New("it names no order")
		}
	}
	if err := checkWords(b); err != nil {
		return err
	}
	return checkIDs(reflect.ValueOf(b))
}

func checkWords(b ferry.Body) error {
	switch b := b.(type) {
	case *ferry.Verdict:
		switch b.Decision {
		case ferry.DecisionKeep, ferry.DecisionChanges:
			if b.Result.IsZero() {
				return fmt.Errorf("the decision %s names no result", b.Decision)
			}
		case ferry.DecisionReject:
		default:
			return fmt.Errorf("unknown decision %q", b.Decision)
		}
	case *ferry.Interrupt:
		switch b.Action {
		case ferry.ActionKill, ferry.ActionPause, ferry.ActionResume, ferry.ActionSteer, ferry.ActionRetry:
		default:
			return fmt.Errorf("unknown action %q", b.Action)
		}
	case *ferry.Answer:
		if b.Question.IsZero() {
			return errors.New("it names no question")
		}
	}
	return nil
}

// checkIDs checks the grammar of every id in a body, so that nobody behind this point has to.
func checkIDs(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return checkIDs(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if err := checkIDs(v.Field(i)); err != nil {
				return err
			}
		}
	case reflect.Slice:
		if k := v.Type().Elem().Kind(); k != reflect.Struct && k != reflect.String {
			return nil
		}
		for i := range v.Len() {
			if err := checkIDs(v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.String:
		return checkID(v)
	}
	return nil
}

func checkID(v reflect.Value) error {
	if v.Len() == 0 {
		return nil
	}
	var err error
	switch s := v.Interface().(type) {
	case ferry.Commit:
		_, err = ferry.ParseCommit(string(s))
	case ferry.RunID:
		_, err = ferry.ParseRunID(string(s))
	case ferry.WriterID:
		_, err = ferry.ParseWriterID(string(s))
	case ferry.AgentName:
		_, err = ferry.ParseAgentName(string(s))
	}
	return err
}

// parsed is a record from the store, with the place where its bytes are.
type parsed struct {
	head sign.Header
	id   ferry.RecordID
	body []byte
	file []byte
	size int
	off  int64
	own  bool
	bare bool          // without the body that the header names
	rec  *ferry.Record // what record gave, so that a body is decoded once
	why  string
}

func parseStored(data []byte) (parsed, error) {
	u, err := sign.ParseHeader(data)
	if err == nil {
		return parsed{head: u.Header(), id: u.ID(), body: u.Body(), file: data, size: len(data)}, nil
	}
	if t, bareErr := sign.ParseBare(data); bareErr == nil {
		return parsed{head: t.Header(), id: t.ID(), file: data, size: len(data), bare: true}, nil
	}
	return parsed{}, err
}

// parse takes the record in a frame apart, unless that was done when it was verified.
func (f frame) parse() (*parsed, error) {
	if f.read != nil {
		return f.read, nil
	}
	p, err := parseStored(f.data)
	return &p, err
}

// path gives the place of the record in the folder.
func (p *parsed) path() string {
	return path.Join(recordsPath(ferry.WriterID(p.head.Writer)), recordName(p.head.Epoch, p.head.Seq, p.id))
}

// record gives the vocabulary's form of a stored record. A body that cannot be read leaves Body nil, and why says so.
func (p *parsed) record() (rec ferry.Record, why string) {
	if p.rec != nil {
		return *p.rec, p.why
	}
	p.rec = &ferry.Record{
		ID: p.id, Writer: ferry.WriterID(p.head.Writer), Epoch: p.head.Epoch, Seq: p.head.Seq, Time: p.head.Time,
		Saw: headsOf(p.head.Saw),
	}
	missing := ferry.Missing(p.head.Need)
	if p.bare {
		p.rec.Body, p.why = gone{ferry.Type(p.head.Type), missing}, whyNothing
		return *p.rec, p.why
	}
	if len(missing) > 0 {
		p.rec.Body = &ferry.Opaque{Is: ferry.Type(p.head.Type), Order: looseOrder(p.body), Need: missing}
		return *p.rec, ""
	}
	b, err := decodeBody(ferry.Type(p.head.Type), p.body)
	if err != nil && statement(ferry.Type(p.head.Type)) && onlyUnknownKeys(ferry.Type(p.head.Type), p.body) {
		// A newer ferry says more here than this one can obey, which must not end in obeying less.
		p.rec.Body = &ferry.Opaque{Is: ferry.Type(p.head.Type), Need: []string{"unknown-keys"}}
		return *p.rec, ""
	}
	if err != nil {
		p.why = err.Error()
		return *p.rec, p.why
	}
	p.rec.Body = b
	return *p.rec, ""
}

// onlyUnknownKeys reports whether keys that this version does not know are all that is wrong with a body.
func onlyUnknownKeys(t ferry.Type, body []byte) bool {
	b := ferry.New(t)
	ignored, err := sign.DecodeJSON(body, b, sign.Ignore)
	return err == nil && ignored > 0 && checkBody(b) == nil
}

func headsOf(saw []sign.Head) []ferry.Head {
	var out []ferry.Head
	for _, h := range saw {
		out = append(out, ferry.Head{Writer: ferry.WriterID(h.Writer), Epoch: h.Epoch, Seq: h.Seq, ID32: h.ID32})
	}
	return out
}

// looseOrder reads which order a body is about that this version does not understand, or gives the zero id.
func looseOrder(body []byte) (id ferry.RecordID) {
	var fields map[string]json.RawMessage
	var text string
	if json.Unmarshal(body, &fields) != nil || json.Unmarshal(fields["order"], &text) != nil {
		return id
	}
	id, err := ferry.ParseRecordID(text)
	if err != nil {
		return ferry.RecordID{}
	}
	return id
}

// subject gives the order that a record is about, an order itself included; ok is false when it is about none.
func subject(rec ferry.Record) (id ferry.RecordID, ok bool) {
	if rec.Body == nil {
		return id, false
	}
	switch b := rec.Body.(type) {
	case *ferry.Order:
		return rec.ID, true
	case gone:
		return rec.ID, b.of == ferry.TypeOrder && len(b.need) == 0
	}
	id = rec.Body.Subject()
	return id, !id.IsZero()
}
