package secret

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"filippo.io/age"

	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// identityNote stands above the identity, for whoever finds the file.
const identityNote = "# opens secrets.age beside it. Keep it on this machine, and out of backups that hold the other file.\n"

// identity reads what opens the sealed file. A file that others may read is refused.
func (s Store) identity() (*age.X25519Identity, error) {
	path := filepath.Join(s.dir, IdentityFile)
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("read %s: mode is %04o, so others can open the secrets: make it 0600 with chmod, and change the secrets if others had access: %w",
			path, info.Mode().Perm(), fs.ErrPermission)
	}
	data, err := atomicfile.ReadBounded(path, maxKeyFile)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	ids, err := age.ParseIdentities(bytes.NewReader(data))
	if err == nil && len(ids) == 1 {
		if id, ok := ids[0].(*age.X25519Identity); ok {
			return id, nil
		}
	}
	return nil, fmt.Errorf("read %s: it is no file with one age identity", path) // the cause could quote the identity
}

// ownIdentity reads the identity, and makes it for the first secret. The caller holds the lock, and has opened what is
// sealed: without an identity nothing is.
func (s Store) ownIdentity() (*age.X25519Identity, error) {
	id, err := s.identity()
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	if id, err = age.GenerateX25519Identity(); err != nil {
		return nil, fmt.Errorf("make an identity: %w", err)
	}
	if err := atomicfile.Create(filepath.Join(s.dir, IdentityFile), []byte(identityNote+id.String()+"\n"), 0o600); err != nil {
		return nil, err
	}
	return id, nil
}
