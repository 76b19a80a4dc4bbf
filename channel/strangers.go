package channel

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// Bounds of what is looked at of writers whom nobody admitted.
const (
	maxStrangerDirs  = 64      // directories that one pass looks into
	maxStrangerNames = 64      // names in one of them
	maxStrangerFiles = 64      // files that one pass opens
	maxLooked        = 1 << 14 // names that are remembered
)

// strangers is what this process remembers of unknown writers.
type strangers struct {
	stamp  dirStamp // of the directory of the writers
	known  int      // how many were known then
	names  []string // of the unknown ones
	next   int      // where the next pass goes on
	dirs   map[string]dirStamp
	looked map[string]bool  // files that were opened: each once
	waits  map[string]bool  // of them, root records that no recovery key known then vouches for
	keys   []sign.PublicKey // the recovery keys that were known then
}

// others counts what lies beside the directories of the known writers. Nothing of it is opened, but for one kind of file: the
// first record of an unknown writer, which may be a root record that a recovery key signed.
func (s *scan) others(ctx context.Context) error {
	m, known := &s.c.seen.strangers, readable(s.c.authority())
	earlier := m.stamp
	if len(known) != m.known {
		earlier = dirStamp{}
	}
	l, err := s.list(ctx, writersDir, earlier)
	if err != nil || l.state == dirAbsent || l.state == dirOdd {
		return err
	}
	if l.state == dirListed {
		m.names = nil
		why := map[string]string{}
		for _, e := range l.entries[:min(len(l.entries), maxWriters)] {
			n := e.Name()
			switch {
			case hidden(n) || slices.Contains(known, ferry.WriterID(n)):
			case isWriter(n):
				m.names = append(m.names, n)
				why[n] = "an unknown writer: no admission names it, so it is not opened"
			case isWriter(strings.ToLower(n)):
				why[n] = "the name of a writer in capital letters; it is not opened"
			default:
				why[n] = "not the name of a writer; it is not opened"
			}
		}
		if l.more || len(l.entries) > maxWriters {
			why["."] = fmt.Sprintf("holds more than %d names; some are not counted", maxWriters)
		}
		if err := s.reject(ctx, writersDir, why); err != nil {
			return err
		}
		m.stamp, m.known = s.lasting(l), len(known)
	}
	return s.recoveries(ctx)
}

// topNames gives the names at the top of the folder that are not those of the format.
func (s *scan) topNames() map[string]string {
	m := s.c.seen
	info, err := os.Stat(s.c.cfg.Folder)
	if err != nil || stampOf(info) == m.top {
		return m.odd
	}
	entries, more, err := s.root.ReadDir(".", maxWriters)
	if err != nil {
		return m.odd // the directories below say it better
	}
	m.odd, m.top = map[string]string{}, dirStamp{}
	for _, e := range entries {
		if n := e.Name(); n != writersDir && n != joinDir && !hidden(n) {
			m.odd[n] = "not a name of the format; it is not opened"
		}
	}
	if more {
		m.odd[".."] = fmt.Sprintf("holds more than %d names; some are not counted", maxWriters)
	}
	if stamp := stampOf(info); stamp.settled(s.now) {
		m.top = stamp
	}
	return m.odd
}

// recoveries offers the first records of unknown writers to the ingest, a few in each pass and each name once.
func (s *scan) recoveries(ctx context.Context) error {
	m := &s.c.seen.strangers
	if len(m.names) == 0 {
		return nil
	}
	m.again(s.c.authority().RecoveryKeys())
	files := 0
	for range min(len(m.names), maxStrangerDirs) {
		name := m.names[m.next%len(m.names)]
		m.next++
		n, err := s.recoveriesOf(ctx, ferry.WriterID(name), maxStrangerFiles-files)
		if err != nil {
			return err
		}
		if files += n; files >= maxStrangerFiles {
			return nil
		}
	}
	return s.flush(ctx)
}

// again makes the root records that waited due once more when other recovery keys are known: the root that names the key of
// one of them may have come only now.
func (m *strangers) again(keys []sign.PublicKey) {
	if slices.Equal(keys, m.keys) {
		return
	}
	m.keys = keys
	for name := range m.waits {
		delete(m.looked, name)
		delete(m.dirs, path.Dir(name))
	}
	clear(m.waits)
}

func (s *scan) recoveriesOf(ctx context.Context, w ferry.WriterID, room int) (opened int, err error) {
	m := &s.c.seen.strangers
	dir := recordsPath(w)
	info, err := s.root.Stat(dir)
	if err != nil || !info.IsDir() || stampOf(info) == m.dirs[dir] {
		return 0, nil
	}
	entries, _, err := s.root.ReadDir(dir, maxStrangerNames)
	if err != nil {
		return 0, nil // it is a stranger's: nothing is owed to it
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		epoch, seq, _, err := sign.ParseName(e.Name())
		if err != nil || epoch != 1 || seq != 1 || m.looked[name] {
			continue
		}
		if opened == room {
			return opened, nil
		}
		opened++
		if len(m.looked) >= maxLooked {
			clear(m.looked)
			clear(m.waits)
		}
		m.looked[name] = true
		if err := s.recovery(ctx, w, name); err != nil {
			return opened, err
		}
	}
	if stamp := stampOf(info); stamp.settled(s.now) {
		if len(m.dirs) >= maxLooked {
			clear(m.dirs)
		}
		m.dirs[dir] = stamp
	}
	return opened, nil
}

// recovery offers one file to the ingest if it calls itself a root record.
func (s *scan) recovery(ctx context.Context, w ferry.WriterID, name string) error {
	data, _ := s.readFile(name, sign.MaxRecord, "a record")
	u, err := sign.ParseHeader(data)
	if err != nil || u.Header().Type != string(ferry.TypeRoot) || ferry.WriterID(u.Header().Writer) != w {
		return nil
	}
	out, err := s.offer(ctx, w, u)
	if out.kind == outWaits {
		s.c.seen.strangers.waits[name] = true
	}
	return err
}
