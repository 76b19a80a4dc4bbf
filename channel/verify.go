package channel

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
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
	ProblemMissing   ProblemKind = "missing"   // an own record that is not in the folder
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
		id, err := a.add(f.data)
		if err != nil {
			a.problem("", 0, ProblemStore, fmt.Sprintf("the frame at %d: %v", f.off, err))
			return ctx.Err()
		}
		own[id] = own[id] || f.own
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
	a.verify()
	if err := a.folder(ctx, c.cfg.Folder, own); err != nil {
		a.problem("", 0, ProblemFile, err.Error())
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
	roots, err := rootsIn(folder)
	if err != nil {
		return VerifyReport{}, fmt.Errorf("verify %s: %w", folder, err)
	}
	master := ferry.WriterID("")
	for _, r := range roots {
		if r.id == id {
			master = r.master
		}
	}
	// The master's directory first: it says whose directories are worth opening.
	first := newAudit(id, judge)
	if err := first.files(ctx, folder, func(w ferry.WriterID) bool { return w == master }); err != nil {
		return VerifyReport{}, fmt.Errorf("verify %s: %w", folder, err)
	}
	first.verify()
	a := newAudit(id, judge)
	err = a.files(ctx, folder, func(w ferry.WriterID) bool {
		_, member := first.roster.Member(w)
		return member
	})
	if err != nil {
		return VerifyReport{}, fmt.Errorf("verify %s: %w", folder, err)
	}
	a.verify()
	return a.finish()
}

// files collects the records of a folder.
func (a *audit) files(ctx context.Context, folder string, wanted func(ferry.WriterID) bool) error {
	return files(ctx, folder, wanted, func(f folderFile) {
		if f.kind != "" {
			a.problem(f.writer, 0, f.kind, f.path+": "+f.why)
			return
		}
		r, err := parseStored(f.data)
		if err == nil {
			_, err = a.add(f.data)
		}
		if err != nil {
			a.problem(f.writer, 0, ProblemFile, f.path+": "+err.Error())
			return
		}
		if own := r.path(); own != f.path {
			a.problem(f.writer, r.head.Seq, ProblemFile, f.path+": its name is not its own; it holds "+own)
		}
	})
}

// folder compares the files of the folder with the records of the store. What a stranger put there is a problem of the
// folder, and no record of the channel.
func (a *audit) folder(ctx context.Context, folder string, own map[ferry.RecordID]bool) error {
	here := map[ferry.RecordID]bool{}
	member := func(w ferry.WriterID) bool {
		_, ok := a.roster.Member(w)
		return ok
	}
	err := files(ctx, folder, member, func(f folderFile) {
		if f.kind != "" {
			a.problem(f.writer, 0, f.kind, f.path+": "+f.why)
			return
		}
		a.compare(f, here)
	})
	if err != nil {
		return err
	}
	for id, mine := range own {
		if !mine || here[id] {
			continue
		}
		r, err := parseStored(a.raw[id])
		if err != nil {
			return err
		}
		a.problem(ferry.WriterID(r.head.Writer), r.head.Seq, ProblemMissing, r.path()+" is not as it was written; the next look at the folder puts back what is missing")
	}
	return nil
}

func (a *audit) compare(f folderFile, here map[ferry.RecordID]bool) {
	r, err := parseStored(f.data)
	if err != nil {
		a.problem(f.writer, 0, ProblemFile, f.path+": "+err.Error())
		return
	}
	stored, have := a.raw[r.id]
	switch {
	case !have:
		a.problem(f.writer, r.head.Seq, ProblemFile, f.path+": "+a.unread(f, r))
	case !bytes.Equal(stored, f.data):
		a.problem(f.writer, r.head.Seq, ProblemFile, f.path+": its bytes are not those of the record in the store")
	case r.path() != f.path:
		a.problem(f.writer, r.head.Seq, ProblemFile, f.path+": its name is not its own; it holds "+r.path())
	default:
		here[r.id] = true
	}
}

// unread says why a file is not in the store.
func (a *audit) unread(f folderFile, r parsed) string {
	key, _, ok := a.roster.Key(f.writer, r.head.Epoch)
	if !ok || ferry.WriterID(r.head.Writer) != f.writer {
		return "not a record of this writer"
	}
	if _, err := sign.Open(f.data, key); err != nil {
		return err.Error()
	}
	if ferry.RecordID(r.head.Channel) != a.id {
		return "a record of the channel " + ferry.RecordID(r.head.Channel).String()
	}
	return "not in the store: it has just arrived, or its predecessor is missing"
}

func (a *audit) finish() (VerifyReport, error) {
	digest, err := digestOf(a.states())
	if err != nil {
		return VerifyReport{}, fmt.Errorf("verify: %w", err)
	}
	a.report.Digest, a.report.Writers, a.report.OK = digest, len(a.writers), len(a.report.Problems) == 0
	slices.SortFunc(a.report.Problems, func(x, y Problem) int {
		return cmp.Or(cmp.Compare(x.Writer, y.Writer), cmp.Compare(x.Seq, y.Seq), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Detail, y.Detail))
	})
	return a.report, nil
}
