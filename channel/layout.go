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

	storeName = "store.log"
	indexName = "index.db"
	lockName  = "store.lock"

	folderMode = 0o755
	fileMode   = 0o644
)

// Bounds of what one look reads of a folder that others write to.
const (
	maxNames     = 1 << 18 // names in one writer's directory
	maxWriters   = 4096    // names beside the known writers
	maxReported  = 64      // names that one directory may put into a report
	maxRepublish = 256     // own files that one pass creates again
	maxWatches   = 1024    // directories that Watch follows
)

func recordsPath(w ferry.WriterID) string { return path.Join(writersDir, string(w), recordsDir) }

func (c Config) storePath() string { return filepath.Join(c.State, storeName) }
func (c Config) indexPath() string { return filepath.Join(c.State, indexName) }
func (c Config) lockPath() string  { return filepath.Join(c.State, lockName) }

// misfit says why a name in a writer's directory is not that of a record, or "" when it is one.
func misfit(name string) string {
	switch _, _, _, err := sign.ParseName(name); {
	case err == nil:
		return ""
	case strings.Contains(name, ".sync-conflict-"):
		return "a conflict copy of the carrier: records never conflict, so it adds nothing; it can be deleted"
	}
	return "not the name of a record; it is not opened"
}

// hidden reports whether a name belongs to a carrier or a desktop and is passed over in silence.
func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "~syncthing~")
}

func recordName(epoch uint32, seq uint64, id ferry.RecordID) string {
	return fmt.Sprintf("%04d-%010d-%x.fr", epoch, seq, id[:16])
}
