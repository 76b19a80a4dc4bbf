package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// Bounds of what travels with an order.
const (
	maxAttachment  = 64 << 10 // bytes of one file
	maxAttachments = 16
	maxNotes       = 16 << 10 // bytes of a reviewer's notes

	intoRepository = "put long material into a file of the repository and name it in the order"
)

// readText reads a text file, or standard input for "-", up to most bytes.
// Next is what to do with a longer one.
func readText(path string, stdin io.Reader, most int, next string) (string, error) {
	var data []byte
	var err error
	if path == "-" {
		data, err = io.ReadAll(io.LimitReader(stdin, int64(most)+1))
	} else {
		data, err = atomicfile.ReadBounded(path, int64(most))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", misuse("check the path", "%s: there is no such file", path)
	case errors.Is(err, fs.ErrPermission):
		return "", misuse("make it readable: chmod u+r "+path, "%s: it cannot be read", path)
	case errors.Is(err, atomicfile.ErrTooLarge) || len(data) > most:
		return "", misuse(next, "%s: more than %d bytes, the limit", path, most)
	case errors.Is(err, atomicfile.ErrNotRegular):
		return "", misuse("give a file", "%s: not a regular file", path)
	case err != nil:
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	if !utf8.Valid(data) || strings.ContainsRune(string(data), 0) {
		return "", misuse("save it as UTF-8 text", "%s: not valid UTF-8 text", path)
	}
	return string(data), nil
}

// attachments reads the files of --attach.
func attachments(paths []string) ([]ferry.Attached, error) {
	if len(paths) > maxAttachments {
		return nil, misuse("put them into the repository", "--attach: %d files, the limit is %d", len(paths), maxAttachments)
	}
	var out []ferry.Attached
	seen := map[string]bool{}
	for _, path := range paths {
		text, err := readText(path, strings.NewReader(""), maxAttachment, intoRepository)
		if err != nil {
			return nil, err
		}
		base := filepath.Base(path)
		if seen[base] {
			return nil, misuse("rename one of them", "--attach %s: there are two files of this name", base)
		}
		seen[base] = true
		sum := sha256.Sum256([]byte(text))
		out = append(out, ferry.Attached{Name: base, Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:]), Text: text})
	}
	return out, nil
}

// parseDollars reads dollars as millionths.
func parseDollars(s string) (int64, error) {
	f, err := strconv.ParseFloat(strings.TrimPrefix(s, "$"), 64)
	if err != nil || math.IsNaN(f) || f <= 0 || f > 1e6 {
		return 0, fmt.Errorf("%q is no amount between 0 and 1000000", clip(s, 40))
	}
	return int64(math.Round(f * 1e6)), nil
}
