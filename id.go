package ferry

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"strings"
)

// RecordID is the identity of a record: SHA-256 of its signed bytes. An order
// is identified by its record id.
type RecordID [32]byte

// ParseRecordID reads 64 lowercase hex digits.
func ParseRecordID(s string) (RecordID, error) {
	var id RecordID
	if len(s) != 64 || !id.decode([]byte(s)) {
		return RecordID{}, fmt.Errorf("record id %q: want 64 lowercase hex digits", clip(s))
	}
	return id, nil
}

// decode reads 64 lowercase hex digits without allocating.
func (id *RecordID) decode(digits []byte) bool {
	for _, c := range digits {
		if c >= 'A' && c <= 'F' {
			return false
		}
	}
	_, err := hex.Decode(id[:], digits)
	return err == nil
}

// String gives the 64 hex digits.
func (id RecordID) String() string { return hex.EncodeToString(id[:]) }

// Short gives the first eight hex digits, as branches and tables show it.
func (id RecordID) Short() string { return hex.EncodeToString(id[:4]) }

// IsZero reports whether the id names no record.
func (id RecordID) IsZero() bool { return id == RecordID{} }

// MarshalText writes the hex form; a zero id becomes the empty string.
func (id RecordID) MarshalText() ([]byte, error) {
	if id.IsZero() {
		return nil, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText reads the hex form; the empty string is the zero id.
func (id *RecordID) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*id = RecordID{}
		return nil
	}
	if len(b) == 64 && id.decode(b) {
		return nil
	}
	_, err := ParseRecordID(string(b))
	return err
}

// WriterID names one writer of a channel: 26 characters of lowercase base32,
// made from its first public key.
type WriterID string

// ParseWriterID checks the grammar of a writer id.
func ParseWriterID(s string) (WriterID, error) {
	if len(s) != 26 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return "", fmt.Errorf("writer id %q: want 26 characters of a-z2-7", clip(s))
	}
	return WriterID(s), nil
}

// AgentName is the name under which a writer works (`wisp-opencode`): lowercase
// letters, digits and dashes, 1 to 64 characters, beginning with a letter or digit.
type AgentName string

// ParseAgentName checks the grammar of an agent's name.
func ParseAgentName(s string) (AgentName, error) {
	if err := checkName("agent", s, 64, "-"); err != nil {
		return "", err
	}
	return AgentName(s), nil
}

// EngineName is the name of an engine in agent.toml, with the same grammar as
// an agent's name plus dots and underscores.
type EngineName string

// ParseEngineName checks the grammar of an engine's name.
func ParseEngineName(s string) (EngineName, error) {
	if err := checkName("engine", s, 64, "-._"); err != nil {
		return "", err
	}
	return EngineName(s), nil
}

// Label is the name a person gives an order (`t-first`): lowercase letters,
// digits, dash, dot and underscore, 1 to 64 characters, beginning with a
// letter or digit. It is unique when the order is issued; the identity of an
// order is its record id.
type Label string

// ParseLabel checks the grammar of a label. Path parts are refused, because a
// label becomes part of a branch name.
func ParseLabel(s string) (Label, error) {
	if err := checkName("label", s, 64, "-._"); err != nil {
		return "", err
	}
	if strings.Contains(s, "..") || strings.HasSuffix(s, ".lock") || strings.HasSuffix(s, ".") {
		return "", fmt.Errorf("label %q: it becomes part of a branch name, so no \"..\", no final dot and no \".lock\"", s)
	}
	return Label(s), nil
}

// Commit is the id of a git object (commit, tree or blob): 40 or 64 lowercase
// hex digits. The empty value means none.
type Commit string

// ParseCommit checks the grammar of an object id.
func ParseCommit(s string) (Commit, error) {
	if (len(s) != 40 && len(s) != 64) || strings.Trim(s, "0123456789abcdef") != "" {
		return "", fmt.Errorf("commit %q: want 40 or 64 lowercase hex digits", clip(s))
	}
	return Commit(s), nil
}

// Short gives the first twelve digits.
func (c Commit) Short() string {
	if len(c) < 12 {
		return string(c)
	}
	return string(c[:12])
}

// RunID names one engine process of an attempt on the machine that runs it:
// 16 characters of lowercase base32 from a secure random source.
type RunID string

var runEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewRunID makes a run id that no other run has.
func NewRunID() RunID {
	var b [10]byte
	rand.Read(b[:]) // it never returns an error: crypto/rand ends the program instead
	return RunID(runEncoding.EncodeToString(b[:]))
}

// ParseRunID checks the grammar of a run id.
func ParseRunID(s string) (RunID, error) {
	if len(s) != 16 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return "", fmt.Errorf("run id %q: want 16 characters of a-z2-7", clip(s))
	}
	return RunID(s), nil
}

func checkName(what, s string, most int, extra string) error {
	if s == "" || len(s) > most {
		return fmt.Errorf("%s %q: want 1 to %d characters", what, clip(s), most)
	}
	for i, r := range s {
		ok := r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || i > 0 && strings.ContainsRune(extra, r)
		if !ok {
			return fmt.Errorf("%s %q: only a-z, 0-9 and %q, beginning with a letter or digit", what, clip(s), extra)
		}
	}
	return nil
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
