package sqlite_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ferry-fleet/ferry/internal/sqlite"
)

const schema = `
CREATE TABLE record (seq INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE ref (seq INTEGER NOT NULL REFERENCES record(seq));
CREATE VIRTUAL TABLE words USING fts4(body);`

func open(t *testing.T, path string, version int) *sqlite.Database {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, schema, version)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func count(t *testing.T, db *sqlite.Database) (n int) {
	t.Helper()
	if err := db.QueryRow("SELECT count(*) FROM record").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func insert(t *testing.T, db *sqlite.Database) {
	t.Helper()
	if _, err := db.Exec("INSERT INTO record(body) VALUES (?)", bytes.Repeat([]byte("x"), 5000)); err != nil {
		t.Fatal(err)
	}
}

func TestOpenMakesKeepsAndReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd name ?#%25.db")
	for _, tt := range []struct {
		name    string
		version int
		rebuilt bool
		rows    int
	}{
		{"no file", 1, true, 0},
		{"same version", 1, false, 1},
		{"older file", 2, true, 0},
		{"same version again", 2, false, 1},
	} {
		db := open(t, path, tt.version)
		if n := count(t, db); db.Rebuilt != tt.rebuilt || n != tt.rows || db.Aside != "" {
			t.Errorf("%s: rebuilt %v with %d rows, aside %q", tt.name, db.Rebuilt, n, db.Aside)
		}
		insert(t, db)
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if info, err := os.Stat(path + suffix); err != nil || info.Mode() != 0o600 {
				t.Errorf("%s: mode of %q: %v, %v", tt.name, suffix, info, err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sqlite.Open(t.Context(), path, schema, 1); !errors.Is(err, sqlite.ErrNewer) {
		t.Errorf("Open of a newer file = %v, want ErrNewer", err)
	}
	if n := count(t, open(t, path, 2)); n != 2 {
		t.Errorf("the refused file has %d rows, want 2", n)
	}
}

func TestOpenMovesDamagedFilesAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	for i, damage := range []func([]byte) []byte{
		func([]byte) []byte {
			return []byte("this is no database, and longer than its header would have to be to be one")
		},
		func(b []byte) []byte { return append(bytes.Repeat([]byte{0xff}, 100), b[100:]...) },
		func(b []byte) []byte { return append(b[:100:100], bytes.Repeat([]byte{0xff}, len(b)-100)...) },
	} {
		db := open(t, path, 1)
		insert(t, db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		sound, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		bad := damage(sound)
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		db = open(t, path, 1)
		if !db.Rebuilt || db.Aside == "" || count(t, db) != 0 {
			t.Errorf("damage %d: rebuilt %v, aside %q", i, db.Rebuilt, db.Aside)
		}
		if kept, err := os.ReadFile(db.Aside); err != nil || !bytes.Equal(kept, bad) {
			t.Errorf("damage %d: the file moved aside is not the damaged one: %v", i, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDamageFoundLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	db := open(t, path, 1)
	for range 50 {
		insert(t, db)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copy(data[3*4096:], bytes.Repeat([]byte{0xff}, len(data)-3*4096))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, 1)
	_, err = db.Exec("SELECT sum(length(body)) FROM record; INSERT INTO record(body) SELECT body FROM record")
	if !sqlite.Damaged(err) {
		t.Fatalf("using the damaged file = %v, want Damaged", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.MoveAside(path); err != nil {
		t.Fatal(err)
	}
	if db := open(t, path, 1); !db.Rebuilt {
		t.Error("the file was not built again")
	}
}

func TestOpenAtTheSameTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	var wg sync.WaitGroup
	var mu sync.Mutex
	rebuilt := 0
	for range 8 {
		wg.Go(func() {
			db, err := sqlite.Open(t.Context(), path, schema, 1)
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			mu.Lock()
			defer mu.Unlock()
			if db.Rebuilt {
				rebuilt++
			}
		})
	}
	wg.Wait()
	if rebuilt != 1 {
		t.Errorf("%d of 8 built the database, want 1", rebuilt)
	}
}

func TestSettings(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "index.db"), 1)
	for pragma, want := range map[string]string{"journal_mode": "wal", "busy_timeout": "5000", "foreign_keys": "1", "synchronous": "1"} {
		var got string
		if err := db.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %q, %v, want %q", pragma, got, err, want)
		}
	}
	if _, err := db.Exec("INSERT INTO ref VALUES (99)"); err == nil {
		t.Error("a foreign key was not checked")
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "index.db")
	if _, err := sqlite.Open(t.Context(), path, schema, 0); err == nil {
		t.Error("version 0 was accepted")
	}
	if _, err := sqlite.Open(t.Context(), path, "CREATE TABEL x", 1); err == nil {
		t.Error("a wrong schema was accepted")
	}
	if db := open(t, path, 1); !db.Rebuilt {
		t.Error("after a wrong schema the file was not built again")
	}
	if _, err := sqlite.Open(t.Context(), filepath.Join(dir, "missing", "x.db"), schema, 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open in a missing directory = %v", err)
	}
	if _, err := sqlite.Open(t.Context(), dir, schema, 1); err == nil {
		t.Error("a directory was opened")
	}
}
