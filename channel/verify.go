package channel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"slices"

	"github.com/ferry-fleet/ferry"
)

// ProblemKind says what is wrong in one word.
type ProblemKind string

// The kinds of problems.
const (
	ProblemRoot      ProblemKind = "root"      // the root record is missing or not genuine
	ProblemSignature ProblemKind = "signature" // a record that its writer did not sign
	ProblemFork      ProblemKind = "fork"      // a number that was signed twice
	ProblemGap       ProblemKind = "gap"       // a record whose predecessor is missing
	ProblemStranger  ProblemKind = "stranger"  // a record or directory of a writer whom nobody admitted
	ProblemStore     ProblemKind = "store"     // a damaged part of the store
	ProblemIndex     ProblemKind = "index"     // the index does not say what the records say
	ProblemFile      ProblemKind = "file"      // a file of the folder that is not what its name says
	ProblemWitness   ProblemKind = "witness"   // a writer that has seen a record of the authority which never came
	ProblemMissing   ProblemKind = "missing"   // a record of the store that is not in the folder
)

// Problem is one thing that Verify found.
type Problem struct {
	Writer ferry.WriterID `json:"writer,omitempty"`
	Seq    uint64         `json:"seq,omitempty"`
	Kind   ProblemKind    `json:"kind"`
	Detail string         `json:"detail"`
}

// VerifyReport is what Verify found. Digest names the states of all orders as computed from the bytes: machines that hold
// the same records have the same one.
type VerifyReport struct {
	OK       bool      `json:"ok"`
	Writers  int       `json:"writers"`
	Records  int       `json:"records"`
	Problems []Problem `json:"problems,omitempty"`
	Digest   string    `json:"digest"`
}

// Verify reads every record of the store and every file of the folder again, checks signatures, chains and bytes, computes
// all states from nothing else and compares them with the index. It changes nothing but what Refresh changes.
func (c *Channel) Verify(ctx context.Context) (VerifyReport, error) {
	size, indexed, err := c.settled(ctx)
	if err != nil {
		return VerifyReport{}, err
	}
	a := newAudit(c.id, c.cfg.Judge)
	own := map[ferry.RecordID]bool{}
	end, damage, err := c.store.scan(0, func(f frame) error {
		if f.off >= size {
			return nil // written since
		}
		if id, known := a.add(f.data); known {
			own[id] = own[id] || f.own
		} else {
			a.problem("", 0, ProblemStore, fmt.Sprintf("the frame at %d is not a record", f.off))
		}
		return ctx.Err()
	})
	if err != nil {
		return VerifyReport{}, err
	}
	for _, d := range damage {
		a.problem("", 0, ProblemStore, fmt.Sprintf("damaged from %d to %d", d.from, d.to))
	}
	if end < size {
		a.problem("", 0, ProblemStore, fmt.Sprintf("damaged from %d on", end))
	}
	if err := a.folder(ctx, c.cfg.Folder, own); err != nil {
		a.problem("", 0, ProblemFile, err.Error())
	}
	if err := a.witnesses(ctx, c); err != nil {
		return VerifyReport{}, err
	}
	r, err := a.finish()
	if err == nil && r.Digest != indexed {
		r.OK = false
		r.Problems = append(r.Problems, Problem{
			Kind: ProblemIndex, Detail: "the index does not agree with the records; delete " + c.cfg.indexPath() + ", and it is made again",
		})
	}
	return r, err
}

// witnesses reports the claims about the authority that did not come true in time.
func (a *audit) witnesses(ctx context.Context, c *Channel) error {
	doubts, err := c.Doubts(ctx)
	for _, d := range doubts {
		a.problem(d.Witness, d.Head.Seq, ProblemWitness, fmt.Sprintf(
			"it says that it has seen record %d of the writer %s, which never came; nothing here waits for that", d.Head.Seq, d.Head.Writer))
	}
	return err
}

// settled catches up, and gives the size of the store and the digest of the index at that moment.
func (c *Channel) settled(ctx context.Context) (size int64, indexed string, err error) {
	if err := c.lock.acquire(ctx); err != nil {
		return 0, "", err
	}
	defer c.lock.release()
	if err := c.catchUp(ctx); err != nil {
		return 0, "", err
	}
	if _, err := c.scan(ctx); err != nil {
		return 0, "", err
	}
	if size, err = c.store.size(); err != nil {
		return 0, "", fmt.Errorf("look at the store: %w", err)
	}
	d := newDigest()
	err = each(ctx, c.db, func(rows *sql.Rows) error {
		var id, task sql.RawBytes
		if err := rows.Scan(&id, &task); err != nil {
			return err
		}
		d.add(ferry.RecordID(id), task)
		return nil
	}, `SELECT id, task FROM orders ORDER BY id`)
	return size, d.String(), err
}

// VerifyDir verifies a folder alone, without any state: everything follows from its files and the id of the channel.
func VerifyDir(ctx context.Context, folder string, id ferry.RecordID, judge ferry.Judge) (VerifyReport, error) {
	a := newAudit(id, judge)
	if err := a.directory(ctx, folder); err != nil {
		return VerifyReport{}, fmt.Errorf("verify %s: %w", folder, err)
	}
	return a.finish()
}

// directory reads the directories of those whom the channel knows, the master's first: it says whose are worth opening.
func (a *audit) directory(ctx context.Context, folder string) error {
	roots, err := mastersIn(folder)
	if err != nil {
		return err
	}
	for _, r := range roots {
		a.add(r.bytes)
	}
	for known := -1; known != len(a.Roster().Known()); {
		wanted := a.Roster().Known()
		known, a.report.Problems = len(wanted), nil
		if err := files(ctx, folder, func(w ferry.WriterID) bool { return slices.Contains(wanted, w) }, a.file); err != nil {
			return err
		}
	}
	if h, behind := a.Behind(); behind {
		a.problem(h.Writer, h.Seq, ProblemGap, fmt.Sprintf("others have seen its record %d of epoch %d, which is not here", h.Seq, h.Epoch))
	}
	return nil
}

// file takes in a file of the folder.
func (a *audit) file(f folderFile) {
	if f.kind != "" {
		a.problem(f.writer, 0, f.kind, f.path+": "+f.why)
		return
	}
	r, err := parseStored(f.data)
	if err != nil {
		a.problem(f.writer, 0, ProblemFile, f.path+": "+err.Error())
		return
	}
	a.add(f.data)
	if own := r.path(); own != f.path {
		a.problem(f.writer, r.head.Seq, ProblemFile, f.path+": its name is not its own; it holds "+own)
	}
}

// folder compares the files of the folder with the records of the store. What a stranger put there is a problem of the
// folder, and no record of the channel.
func (a *audit) folder(ctx context.Context, folder string, own map[ferry.RecordID]bool) error {
	here := map[ferry.RecordID]bool{}
	known := a.Roster().Known()
	err := files(ctx, folder, func(w ferry.WriterID) bool { return slices.Contains(known, w) }, func(f folderFile) {
		if f.kind != "" {
			a.problem(f.writer, 0, f.kind, f.path+": "+f.why)
			return
		}
		a.compare(f, here)
	})
	if err != nil {
		return err
	}
	lacks := map[ferry.WriterID][]uint64{}
	for id, mine := range own {
		if here[id] || !mine && a.records[id] == nil {
			continue
		}
		r, err := parseStored(a.stored(id))
		if err != nil {
			return err
		}
		if !mine {
			lacks[ferry.WriterID(r.head.Writer)] = append(lacks[ferry.WriterID(r.head.Writer)], r.head.Seq)
			continue
		}
		a.problem(ferry.WriterID(r.head.Writer), r.head.Seq, ProblemMissing, r.path()+" is not as it was written; the next look at the folder puts back what is missing")
	}
	for w, seqs := range lacks {
		a.problem(w, slices.Min(seqs), ProblemMissing, fmt.Sprintf(
			"%d of its records, the first with the number %d, are in the store and not in the folder as they were written; the machine that wrote them puts them back",
			len(seqs), slices.Min(seqs)))
	}
	return nil
}

func (a *audit) compare(f folderFile, here map[ferry.RecordID]bool) {
	r, err := parseStored(f.data)
	if err != nil {
		a.problem(f.writer, 0, ProblemFile, f.path+": "+err.Error())
		return
	}
	stored := a.stored(r.id)
	switch {
	case stored == nil:
		a.problem(f.writer, r.head.Seq, ProblemFile, f.path+": "+a.unread(f, r))
	case !a.same(stored, f.data):
		a.problem(f.writer, r.head.Seq, ProblemFile, f.path+": its bytes are not those of the record in the store")
	case r.path() != f.path:
		a.problem(f.writer, r.head.Seq, ProblemFile, f.path+": its name is not its own; it holds "+r.path())
	default:
		here[r.id] = true
	}
}

// same reports whether the bytes of a file are those of the record in the store. While a redaction is on its way to all machines
// one of the two may be bare.
func (a *audit) same(stored, file []byte) bool {
	if bytes.Equal(stored, file) {
		return true
	}
	one, err := parseStored(stored)
	other, otherErr := parseStored(file)
	if err != nil || otherErr != nil || one.bare == other.bare || !a.told[one.id] {
		return false
	}
	if other.bare {
		return bytes.HasPrefix(stored, file)
	}
	return bytes.HasPrefix(file, stored) && sha256.Sum256(other.body) == other.head.BodyHash
}

// unread says why a file is not in the store.
func (a *audit) unread(f folderFile, r parsed) string {
	key, _, ok := a.roster.Key(f.writer, r.head.Epoch)
	if !ok || ferry.WriterID(r.head.Writer) != f.writer {
		return "not a record of this writer"
	}
	u, err := formOf(f.data)
	if err == nil {
		_, err = openForm(u, key)
	}
	if err != nil {
		return err.Error()
	}
	if ferry.RecordID(r.head.Channel) != a.spec.ID {
		return "a record of the channel " + ferry.RecordID(r.head.Channel).String()
	}
	return "not in the store: it has just arrived, or its predecessor is missing"
}
