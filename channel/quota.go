package channel

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
)

// folderSchema is what is remembered of the folder beside dirs and rejected: the packs that were read whole, when a member
// was last heard of by the clock of this machine, what came from each writer today, and how much each directory holds.
const folderSchema = `
CREATE TABLE packs (
	dir TEXT NOT NULL, name TEXT NOT NULL, size INTEGER NOT NULL, mtime INTEGER NOT NULL, epoch INTEGER NOT NULL,
	low INTEGER NOT NULL, high INTEGER NOT NULL, PRIMARY KEY (dir, name)) WITHOUT ROWID;
CREATE TABLE heard (writer TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE quotas (writer TEXT PRIMARY KEY, day INTEGER NOT NULL, records INTEGER NOT NULL, bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE usage (dir TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX records_seal ON records (writer, n) WHERE type = 'seal';
CREATE INDEX records_invite ON records (n) WHERE type = 'invite';
`

// Limits bounds what the folder may cost this machine. A field that is zero has the value of the format's documentation.
type Limits struct {
	Records     int64         // loose records of one writer in a day
	Bytes       int64         // bytes of them
	FolderBytes int64         // of the files of all writers that were taken in, beyond which the biggest wait
	FreePercent int64         // of the disk, below which only those who govern are read
	FreeBytes   int64         // that are enough whatever the percentage
	Relay       time.Duration // how long files of another writer are missing before they are written again
	Hold        time.Duration // how long a record of the authority that another has seen is waited for
	Silence     time.Duration // after which a member holds up no removal of sealed files, and after which they go anyhow
}

func (l Limits) filled() Limits {
	or := func(v *int64, standard int64) {
		if *v == 0 {
			*v = standard
		}
	}
	or(&l.Records, 20_000)
	or(&l.Bytes, 256<<20)
	or(&l.FolderBytes, 5<<30)
	or(&l.FreePercent, 5)
	or(&l.FreeBytes, 2<<30)
	or((*int64)(&l.Relay), int64(10*time.Minute))
	or((*int64)(&l.Hold), int64(10*time.Minute))
	or((*int64)(&l.Silence), int64(30*24*time.Hour))
	return l
}

// room finds out whether there is room to take anything in, and reports why there is none. Whatever it finds, those who govern
// are read, so that nobody can keep a revocation out by filling something; and files of this machine are put back and beats
// are read all the same.
func (s *scan) room(ctx context.Context) error {
	limits := s.c.cfg.Limits.filled()
	for _, dir := range []string{s.c.cfg.State, s.c.cfg.Folder} {
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil || fs.Blocks == 0 {
			continue // a filesystem that does not say has room
		}
		free := uint64(fs.Bavail) * uint64(fs.Bsize)
		if uint64(fs.Bavail)*100 < uint64(fs.Blocks)*uint64(limits.FreePercent) && free < uint64(limits.FreeBytes) {
			s.held = fmt.Sprintf("only those who govern are read: the disk of %s is nearly full; make room on it", dir)
		}
	}
	if err := s.recallUsage(ctx, limits.FolderBytes); err != nil {
		return err
	}
	why := s.topNames()
	if held := cmp.Or(s.held, s.usage.over()); held != "" {
		why = maps.Clone(why)
		if why == nil {
			why = map[string]string{}
		}
		why["."] = held
	}
	return s.reject(ctx, "", why)
}

// full says why the files of a writer in a directory wait: the disk is nearly full, or all writers hold more than the limit
// and this directory belongs to one of those who hold most of it. It is empty for those who govern.
func (s *scan) full(of ferry.WriterID, dir string) string {
	why := s.held
	if why == "" {
		why = s.usage.full(dir)
	}
	if why == "" || governs(s.c.authority(), of) {
		return ""
	}
	return why
}

// governs reports whether a writer is or was the master, or has a delegation: its statements say who may do what.
func governs(r *authority.Roster, w ferry.WriterID) bool {
	for _, root := range r.Roots() {
		if root.Writer == w {
			return true
		}
	}
	_, _, delegated := r.Delegation(w)
	return delegated
}

// usage is how many bytes of the files in the folder were taken in, by directory and by account. A file that was refused, or
// has not been opened, adds nothing: a stranger to the keys cannot use up the room of a writer with files of any size.
type usage struct {
	dirs     map[string]int64
	accounts map[string]int64
	sum      int64
	limit    int64 // of the sum
	share    int64 // of an account, once the sum is over its limit
}

// account names who answers for a directory of records or packs: the writer in whose directory it is, or the relays of that
// writer, so that what it relays of a flood does not hold up its own records.
func account(dir string) string {
	part := strings.Split(dir, "/")
	if len(part) > 3 {
		return part[1] + "/" + part[2]
	}
	return part[min(1, len(part)-1)]
}

func (u *usage) set(dir string, bytes int64) {
	more := bytes - u.dirs[dir]
	u.dirs[dir] = bytes
	u.accounts[account(dir)] += more
	u.sum += more
}

func (u *usage) add(dir string, bytes int64) { u.set(dir, u.dirs[dir]+bytes) }

// over says that all files together hold more than the limit, or nothing.
func (u *usage) over() string {
	if u.sum <= u.limit {
		return ""
	}
	return fmt.Sprintf("the folder holds %d MiB, more than the limit of %d MiB: the writers that hold most of it wait, and those who govern do not; remove what does not belong there",
		u.sum>>20, u.limit>>20)
}

// full says that a directory waits because its account holds more than its share of a folder that is over its limit. When
// the folder is over it, one account at least holds more than its share, and the others go on.
func (u *usage) full(dir string) string {
	if have := u.accounts[account(dir)]; u.sum > u.limit && have > u.share {
		return fmt.Sprintf("waits: %d MiB of it were taken in, and each may hold %d MiB while the folder holds more than %d MiB",
			have>>20, u.share>>20, u.limit>>20)
	}
	return ""
}

// recallUsage reads what was taken in of each directory, as of the last look at it.
func (s *scan) recallUsage(ctx context.Context, limit int64) error {
	if s.c.seen.usage == nil {
		all := map[string]int64{}
		err := each(ctx, s.c.db, func(rows *sql.Rows) error {
			var dir string
			var n int64
			err := rows.Scan(&dir, &n)
			all[dir] = n
			return err
		}, `SELECT dir, bytes FROM usage`)
		if err != nil {
			return err
		}
		s.c.seen.usage = all
	}
	accounts := 2 * max(1, len(readable(s.c.authority()))) // each writer has one for its relays
	s.usage = usage{dirs: map[string]int64{}, accounts: map[string]int64{}, limit: limit, share: limit / int64(accounts)}
	for dir, n := range s.c.seen.usage {
		s.usage.set(dir, n)
	}
	return nil
}

// usageStep is the change of a directory that is worth remembering.
const usageStep = 1 << 20

func (s *scan) used(ctx context.Context, dir string, bytes int64) error {
	s.usage.set(dir, bytes)
	before := s.c.seen.usage[dir]
	if bytes > before-usageStep && bytes < before+usageStep {
		return nil
	}
	s.c.seen.usage[dir] = bytes
	if _, err := s.c.db.ExecContext(ctx, `INSERT OR REPLACE INTO usage VALUES (?, ?)`, dir, bytes); err != nil {
		return fmt.Errorf("remember what %s holds: %w", dir, err)
	}
	return nil
}

// quota is what came loose from one writer on one day of this machine's clock.
type quota struct {
	day, records, bytes int64
	limits              Limits
	changed             bool
}

// String says that the quota is used up.
func (q *quota) String() string {
	return fmt.Sprintf("the writer has sent %d records and %d MiB today, and a day allows %d and %d MiB: the rest is read tomorrow",
		q.records, q.bytes>>20, q.limits.Records, q.limits.Bytes>>20)
}

// over reports whether a writer has used up its day.
func (s *scan) over(w ferry.WriterID) bool {
	q := s.quotas[w]
	return q != nil && (q.records >= q.limits.Records || q.bytes >= q.limits.Bytes)
}

// count adds a loose record of a writer to its day.
func (s *scan) count(w ferry.WriterID, size int) {
	q := s.quotas[w]
	if q == nil {
		q = &quota{day: day(s.now), limits: s.c.cfg.Limits.filled()}
		s.quotas[w] = q
	}
	q.records, q.bytes, q.changed = q.records+1, q.bytes+int64(size), true
}

func day(t time.Time) int64 { return t.Unix() / int64(24*time.Hour/time.Second) }

// recallQuotas reads what came today.
func (s *scan) recallQuotas(ctx context.Context) error {
	limits, today := s.c.cfg.Limits.filled(), day(s.now)
	return each(ctx, s.c.db, func(rows *sql.Rows) error {
		var w ferry.WriterID
		q := &quota{limits: limits}
		if err := rows.Scan(&w, &q.day, &q.records, &q.bytes); err != nil {
			return err
		}
		if q.day == today {
			s.quotas[w] = q
		}
		return nil
	}, `SELECT writer, day, records, bytes FROM quotas`)
}

// keepQuotas remembers what came in this pass.
func (s *scan) keepQuotas(ctx context.Context) error {
	for w, q := range s.quotas {
		if !q.changed {
			continue
		}
		_, err := s.c.db.ExecContext(ctx, `INSERT OR REPLACE INTO quotas VALUES (?, ?, ?, ?)`, string(w), q.day, q.records, q.bytes)
		if err != nil {
			return fmt.Errorf("remember the quota of %s: %w", w, err)
		}
	}
	return nil
}
