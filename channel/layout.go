package channel

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// Names in the folder and in the state directory; nothing else in this package spells them.
const (
	writersDir = "w"
	recordsDir = "t"
	packsDir   = "p"
	relaysDir  = "r"
	joinDir    = "j"
	beatName   = "beat"

	storeName = "store.log"
	indexName = "index.db"
	lockName  = "store.lock"
	punchName = "store.punch"

	folderMode = 0o755
	fileMode   = 0o644
)

// Bounds of what one look reads of a folder that others write to.
const (
	maxNames     = 1 << 17 // names in one directory
	maxWriters   = 4096    // names beside the known writers
	maxReported  = 64      // names that one directory may put into a report
	maxRepublish = 256     // own files, and files of others, that one pass creates again
	maxWatches   = 1024    // directories that Watch follows
	maxLoose     = 4096    // files of one writer that one pass opens
	maxPacks     = 512     // packs that one pass opens
)

// Directories of a writer. Those that hold what a writer relays of another are inside its own.
func writerPath(w ferry.WriterID) string  { return path.Join(writersDir, string(w)) }
func recordsPath(w ferry.WriterID) string { return path.Join(writersDir, string(w), recordsDir) }
func packsPath(w ferry.WriterID) string   { return path.Join(writersDir, string(w), packsDir) }
func relaysPath(w ferry.WriterID) string  { return path.Join(writersDir, string(w), relaysDir) }
func beatPath(w ferry.WriterID) string    { return path.Join(writersDir, string(w), beatName) }

func relayPath(by, of ferry.WriterID, dir string) string {
	return path.Join(relaysPath(by), string(of), dir)
}

func joinPath(invite ferry.RecordID) string { return path.Join(joinDir, invite.String()[:16]) }

func (c Config) storePath() string { return filepath.Join(c.State, storeName) }
func (c Config) indexPath() string { return filepath.Join(c.State, indexName) }
func (c Config) punchPath() string { return filepath.Join(c.State, punchName) }
func (c Config) lockPath() string  { return filepath.Join(c.State, lockName) }

// nameKind says what a path in the folder is the name of.
type nameKind uint8

const (
	nameRecord nameKind = iota + 1
	namePack
	nameBeat
	nameJoin
)

// fileName is a path in the folder, taken apart. It is a hint: only the content of a file counts.
type fileName struct {
	kind   nameKind
	in     ferry.WriterID // whose directory it is in; empty for a join request
	of     ferry.WriterID // whose file it is; another writer than in for what in relays
	epoch  uint32
	from   uint64 // the number of a record, the first number of a pack
	to     uint64 // the last number of a pack
	id32   string // of a record's id, or of a pack's hash
	invite string // the first 16 hex digits of the invite of a join request
}

// parsePath reads the name of a file in the folder. This is the whole grammar of the folder: what it does not accept is
// counted and never opened.
func parsePath(rel string) (fileName, bool) {
	parts := strings.Split(rel, "/")
	if len(parts) == 3 && parts[0] == joinDir {
		return parseJoinPath(parts)
	}
	if len(parts) < 3 || parts[0] != writersDir || !isWriter(parts[1]) {
		return fileName{}, false
	}
	w := ferry.WriterID(parts[1])
	n := fileName{in: w, of: w}
	rest := parts[2:]
	if len(rest) == 1 {
		n.kind = nameBeat
		return n, rest[0] == beatName
	}
	if rest[0] == relaysDir {
		if len(rest) != 4 || !isWriter(rest[1]) || rest[1] == parts[1] {
			return fileName{}, false
		}
		n.of, rest = ferry.WriterID(rest[1]), rest[2:]
	}
	if len(rest) != 2 {
		return fileName{}, false
	}
	var err error
	switch rest[0] {
	case recordsDir:
		n.kind = nameRecord
		n.epoch, n.from, n.id32, err = sign.ParseName(rest[1])
		n.to = n.from
		return n, err == nil
	case packsDir:
		n.kind = namePack
		return n, n.parsePack(rest[1])
	}
	return fileName{}, false
}

// parsePack reads <eeee>-<from10>-<to10>-<id32>.fp. Its parts are spelled like those of the names of two records.
func (n *fileName) parsePack(base string) bool {
	const from, to = len("eeee-"), len("eeee-ssssssssss-")
	stem, ok := strings.CutSuffix(base, ".fp")
	if !ok || len(stem) != to+len("ssssssssss-")+32 {
		return false
	}
	epoch, low, id32, errLow := sign.ParseName(stem[:to] + stem[to+11:] + ".fr")
	_, high, _, errHigh := sign.ParseName(stem[:from] + stem[to:] + ".fr")
	n.epoch, n.from, n.to, n.id32 = epoch, low, high, id32
	return errLow == nil && errHigh == nil && low <= high && high-low < maxPackRecords
}

func parseJoinPath(parts []string) (fileName, bool) {
	w, ok := strings.CutSuffix(parts[2], ".fj")
	if !ok || !isWriter(w) || len(parts[1]) != 16 || strings.Trim(parts[1], "0123456789abcdef") != "" {
		return fileName{}, false
	}
	return fileName{kind: nameJoin, of: ferry.WriterID(w), invite: parts[1]}, true
}

func isWriter(s string) bool {
	_, err := ferry.ParseWriterID(s)
	return err == nil
}

// path gives the path that parsePath reads.
func (n fileName) path() string {
	base := writerPath(n.in)
	if n.in != n.of {
		base = relayPath(n.in, n.of, "")
	}
	switch n.kind {
	case nameRecord:
		return fmt.Sprintf("%s/%s/%04d-%010d-%s.fr", base, recordsDir, n.epoch, n.from, n.id32)
	case namePack:
		return fmt.Sprintf("%s/%s/%04d-%010d-%010d-%s.fp", base, packsDir, n.epoch, n.from, n.to, n.id32)
	case nameBeat:
		return beatPath(n.in)
	case nameJoin:
		return path.Join(joinDir, n.invite, string(n.of)+".fj")
	}
	return ""
}

// misfit says why a name in a directory of records is not that of a record, or "" when it is one.
func misfit(name string) string {
	if _, _, _, err := sign.ParseName(name); err == nil {
		return ""
	}
	return misfitReason(name, "a record")
}

// misfitPack says why a name in a directory of packs is not that of a pack, or "" when it is one.
func misfitPack(name string) string {
	var n fileName
	if n.parsePack(name) {
		return ""
	}
	return misfitReason(name, "a pack")
}

func misfitReason(name, what string) string {
	if conflictCopy(name) {
		return "a conflict copy of the carrier: records never conflict, so it adds nothing; it can be deleted"
	}
	return "not the name of " + what + "; it is not opened"
}

// conflictCopy reports whether a name is one that the carrier gives the loser of two changes.
func conflictCopy(name string) bool { return strings.Contains(name, ".sync-conflict-") }

// hidden reports whether a name belongs to a carrier or a desktop and is passed over in silence.
func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "~syncthing~")
}

func recordName(epoch uint32, seq uint64, id ferry.RecordID) string {
	return fmt.Sprintf("%04d-%010d-%x.fr", epoch, seq, id[:16])
}
