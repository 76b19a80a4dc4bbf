package secret_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry/sign/secret"
)

var testNow = time.Date(2026, 11, 30, 12, 0, 0, 5, time.UTC)

const value = "sk-or-v1-0123456789abcdef"

func set(t *testing.T, s secret.Store, name, v string) bool {
	t.Helper()
	replaced, err := s.Set(name, v, testNow)
	if err != nil {
		t.Fatal(err)
	}
	return replaced
}

func TestStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	s := secret.Open(dir)
	if got, err := s.List(); len(got) != 0 || err != nil {
		t.Fatalf("List() of nothing = %v, %v", got, err)
	}
	if _, err := s.Get("A_KEY"); !errors.Is(err, secret.ErrNotSet) {
		t.Errorf("Get() of nothing: %v", err)
	}
	if err := s.Remove("A_KEY"); !errors.Is(err, secret.ErrNotSet) {
		t.Errorf("Remove() of nothing: %v", err)
	}
	if set(t, s, "B_KEY", "other") || set(t, s, "A_KEY", "before") || !set(t, s, "A_KEY", value) {
		t.Error("Set() says of the wrong name that it had a value")
	}
	s = secret.Open(dir)
	if got, err := s.Get("A_KEY"); got != value || err != nil {
		t.Errorf("Get() = %q, %v", got, err)
	}
	got, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	at := testNow.Truncate(time.Second)
	if d := cmp.Diff([]secret.Info{{Name: "A_KEY", Set: at}, {Name: "B_KEY", Set: at}}, got); d != "" {
		t.Errorf("List() (-want +got):\n%s", d)
	}
	if err := s.Remove("A_KEY"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("A_KEY"); !errors.Is(err, secret.ErrNotSet) {
		t.Errorf("Get() of what was removed: %v", err)
	}
	if got, err := s.Get("B_KEY"); got != "other" || err != nil {
		t.Errorf("Get() of the one that stayed = %q, %v", got, err)
	}
}

// TestNothingOnDiskShowsAValue reads every file of the store for a value and its encodings.
func TestNothingOnDiskShowsAValue(t *testing.T) {
	dir := t.TempDir()
	set(t, secret.Open(dir), "A_KEY", value)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %04o", e.Name(), info.Mode().Perm())
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{value, base64.StdEncoding.EncodeToString([]byte(value)), fmt.Sprintf("%x", value)} {
			if bytes.Contains(data, []byte(form)) {
				t.Errorf("%s shows the value", e.Name())
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	s := secret.Open(t.TempDir())
	for name, tt := range map[string]struct{ name, value, want string }{
		"empty name":    {"", value, "begins with a letter"},
		"path":          {"../x", value, "begins with a letter"},
		"digit first":   {"1A", value, "begins with a letter"},
		"long name":     {strings.Repeat("A", 65), value, "1 to 64"},
		"empty value":   {"A", "", "the value is empty"},
		"NUL":           {"A", value + "\x00", "NUL"},
		"no UTF-8":      {"A", value + "\xff", "UTF-8"},
		"long value":    {"A", strings.Repeat(value, 1000), "more than 16384 bytes"},
		"name and line": {"A\n", value, "begins with a letter"},
	} {
		_, err := s.Set(tt.name, tt.value, testNow)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Set() = %v, want %q", name, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), value) {
			t.Errorf("%s: the error shows the value: %v", name, err)
		}
	}
	if _, err := s.Set("A", strings.Repeat("x", secret.MaxValue), testNow); err != nil {
		t.Errorf("a value of the largest size: %v", err)
	}
}

// TestFull fills a store with values that are longest on disk: what was set can be read, and the store stays whole.
func TestFull(t *testing.T) {
	s := secret.Open(t.TempDir())
	n := 0
	var err error
	for ; err == nil && n < 300; n++ {
		_, err = s.Set(fmt.Sprintf("N%d", n), strings.Repeat("\x01", secret.MaxValue), testNow)
	}
	if err == nil || !strings.Contains(err.Error(), "the limit") {
		t.Fatalf("after %d values: %v", n, err)
	}
	if got, err := s.List(); len(got) != n-1 || err != nil {
		t.Errorf("%d secrets, want %d: %v", len(got), n-1, err)
	}
	if !set(t, s, "N0", value) {
		t.Error("a full store takes no shorter value")
	}
}

func TestTooMany(t *testing.T) {
	s := secret.Open(t.TempDir())
	for i := range 128 {
		set(t, s, fmt.Sprintf("N%d", i), "v")
	}
	if _, err := s.Set("ONE_MORE", value, testNow); err == nil || !strings.Contains(err.Error(), "there are 128 secrets, the limit") {
		t.Errorf("the 129th: %v", err)
	}
	if !set(t, s, "N0", value) {
		t.Error("a full store takes no other value for a name")
	}
}

func TestDamage(t *testing.T) {
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, text string, perm fs.FileMode) func(string) error {
		return func(dir string) error {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(text), perm); err != nil {
				return err
			}
			return os.Chmod(path, perm)
		}
	}
	for name, tt := range map[string]struct {
		do   func(dir string) error
		is   error
		want string
	}{
		"no identity":       {func(dir string) error { return os.Remove(filepath.Join(dir, secret.IdentityFile)) }, secret.ErrNoIdentity, "is gone"},
		"readable":          {func(dir string) error { return os.Chmod(filepath.Join(dir, secret.IdentityFile), 0o640) }, fs.ErrPermission, "0600"},
		"other":             {put(secret.IdentityFile, other.String()+"\n", 0o600), nil, "another identity"},
		"two":               {put(secret.IdentityFile, other.String()+"\n"+other.String()+"\n", 0o600), nil, "no file with one age identity"},
		"no identity in it": {put(secret.IdentityFile, "AGE-SECRET-KEY-nonsense\n", 0o600), nil, "no file with one age identity"},
		"cut":               {func(dir string) error { return os.Truncate(filepath.Join(dir, secret.SealedFile), 210) }, nil, "damaged"},
		"text":              {put(secret.SealedFile, "hello\n", 0o600), nil, "damaged"},
		"large":             {put(secret.SealedFile, strings.Repeat("x", 3<<20), 0o600), nil, "secrets.age"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := secret.Open(dir)
			set(t, s, "A_KEY", value)
			if err := tt.do(dir); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(filepath.Join(dir, secret.SealedFile))
			if err != nil {
				t.Fatal(err)
			}
			_, got := s.Get("A_KEY")
			_, setErr := s.Set("B_KEY", value, testNow)
			for verb, err := range map[string]error{"Get": got, "Set": setErr} {
				if err == nil || !strings.Contains(err.Error(), tt.want) || tt.is != nil && !errors.Is(err, tt.is) {
					t.Errorf("%s() = %v, want %q", verb, err, tt.want)
				}
				if err != nil && strings.Contains(err.Error(), "nonsense") {
					t.Errorf("%s() shows the identity: %v", verb, err)
				}
			}
			after, err := os.ReadFile(filepath.Join(dir, secret.SealedFile))
			if err != nil || !bytes.Equal(before, after) {
				t.Errorf("what could not be opened was written over: %v", err)
			}
		})
	}
}

// TestWritersTogether lets many set at once: nobody's value is lost, and there is one identity.
func TestWritersTogether(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if _, err := secret.Open(dir).Set(fmt.Sprintf("N%d", i), fmt.Sprintf("value-%d", i), testNow); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i := range 16 {
		if got, err := secret.Open(dir).Get(fmt.Sprintf("N%d", i)); got != fmt.Sprintf("value-%d", i) || err != nil {
			t.Errorf("N%d = %q, %v", i, got, err)
		}
	}
}

// FuzzOpen opens any bytes as the sealed file.
func FuzzOpen(f *testing.F) {
	dir := f.TempDir()
	if _, err := secret.Open(dir).Set("A_KEY", value, testNow); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(dir, secret.SealedFile))
	if err != nil {
		f.Fatal(err)
	}
	identity, err := os.ReadFile(filepath.Join(dir, secret.IdentityFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte("age-encryption.org/v1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		for name, b := range map[string][]byte{secret.IdentityFile: identity, secret.SealedFile: data} {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := secret.Open(dir).Get("A_KEY")
		if err == nil && got != value {
			t.Errorf("Get() = %q from bytes that nobody sealed", got)
		}
	})
}
