package channel_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

func someToken(t testing.TB) channel.Token {
	t.Helper()
	tok := channel.NewToken()
	for i := range 32 {
		tok.Channel[i], tok.Invite[i] = byte(i), byte(200+i)
	}
	tok.Root = tok.Channel
	tok.Master = ferry.WriterID("abcdefghijklmnopqrstuvwxyz")
	tok.Epoch, tok.Seq = 2, 123456
	tok.NotAfter = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	tok.Name, tok.Version = "wisp-codex", "0.2.0"
	tok.Carrier = channel.Hint{Kind: "folder", Text: "~/ferry/ünder"}
	return tok
}

func code(t testing.TB, tok channel.Token) string {
	t.Helper()
	c, err := tok.Code()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTokenComesBack(t *testing.T) {
	plain := someToken(t)
	bare := channel.NewToken()
	bare.Master, bare.Epoch, bare.Seq, bare.NotAfter = plain.Master, 1, 1, time.Unix(0, 0).UTC()
	later := someToken(t)
	later.Root[3] ^= 1
	for name, want := range map[string]channel.Token{"plain": plain, "bare": bare, "later root": later} {
		c := code(t, want)
		for how, text := range map[string]string{
			"as it is": c, "upper": strings.ToUpper(c), "wrapped": " " + c[:40] + "\n  " + c[40:90] + " \r\n" + c[90:] + "\n",
		} {
			got, err := channel.ParseToken(text)
			if err != nil {
				t.Errorf("%s, %s: %v", name, how, err)
				continue
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(channel.Token{})); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", name, how, diff)
			}
			a, errA := want.Key()
			b, errB := got.Key()
			if errA != nil || errB != nil || a.Public() != b.Public() {
				t.Errorf("%s, %s: the key differs (%v, %v)", name, how, errA, errB)
			}
		}
	}
}

func TestTokenRefusals(t *testing.T) {
	c := code(t, someToken(t))
	last := byte('a')
	if c[60] == last {
		last = 'b'
	}
	for name, text := range map[string]string{
		"empty": "", "prefix alone": "ferry1.", "other prefix": "ferry2." + c[7:], "cut": c[:len(c)-5], "longer": c + "aa",
		"one character": c[:60] + string(last) + c[61:], "no alphabet": c[:60] + "1" + c[61:], "huge": c + strings.Repeat("a", 2000),
	} {
		if _, err := channel.ParseToken(text); !errors.Is(err, channel.ErrToken) {
			t.Errorf("%s: error %v, want ErrToken", name, err)
		}
	}
}

func TestTokenRefusesWhatItCannotCarry(t *testing.T) {
	for name, change := range map[string]func(*channel.Token){
		"no master":    func(tok *channel.Token) { tok.Master = "" },
		"no epoch":     func(tok *channel.Token) { tok.Epoch = 0 },
		"no seq":       func(tok *channel.Token) { tok.Seq = 0 },
		"long name":    func(tok *channel.Token) { tok.Name = strings.Repeat("a", 65) },
		"long hint":    func(tok *channel.Token) { tok.Carrier.Text = strings.Repeat("a", 257) },
		"control code": func(tok *channel.Token) { tok.Carrier.Text = "a\x1b[2J" },
		"bad utf-8":    func(tok *channel.Token) { tok.Carrier.Text = "a\xff" },
		"before 1970":  func(tok *channel.Token) { tok.NotAfter = time.Unix(-1, 0) },
	} {
		tok := someToken(t)
		change(&tok)
		if c, err := tok.Code(); err == nil {
			t.Errorf("%s: no error, but the code %s", name, c)
		}
	}
}

func TestTokenHidesItsKey(t *testing.T) {
	tok := someToken(t)
	secret := code(t, tok)[180:200]
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("token", "token", tok)
	asJSON, err := json.Marshal(tok)
	if err != nil {
		t.Fatal(err)
	}
	for how, text := range map[string]string{
		"%v": fmt.Sprintf("%v", tok), "%+v": fmt.Sprintf("%+v", tok), "%#v": fmt.Sprintf("%#v", tok), "%x": fmt.Sprintf("%x", tok),
		"pointer": fmt.Sprintf("%v", &tok), "inside": fmt.Sprintf("%v", struct{ T channel.Token }{tok}), "log": log.String(),
	} {
		if !strings.Contains(text, "key hidden") || strings.Contains(text, secret) {
			t.Errorf("%s: %s", how, text)
		}
	}
	if strings.Contains(strings.ToLower(string(asJSON)), "seed") {
		t.Errorf("JSON shows the key: %s", asJSON)
	}
}

func TestWords(t *testing.T) {
	got := strings.Join(channel.Words([]byte("channel"), []byte("key"), []byte("nonce")), " ")
	if want := "junk broom open fragile autumn plate"; got != want {
		t.Errorf("words are %q, want %q", got, want)
	}
	for name, other := range map[string][]string{
		"another nonce":       channel.Words([]byte("channel"), []byte("key"), []byte("nonces")),
		"parts cut elsewhere": channel.Words([]byte("channelk"), []byte("ey"), []byte("nonce")),
		"fewer parts":         channel.Words([]byte("channel"), []byte("keynonce")),
	} {
		if len(other) != 6 || strings.Join(other, " ") == got {
			t.Errorf("%s: words %v", name, other)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(code(f, someToken(f)))
	f.Add("ferry1.")
	f.Add("ferry1.aeaaaaaa")
	f.Fuzz(func(t *testing.T, text string) {
		tok, err := channel.ParseToken(text)
		if err != nil {
			if !errors.Is(err, channel.ErrToken) {
				t.Fatalf("error %v is no ErrToken", err)
			}
			return
		}
		c, err := tok.Code()
		if err != nil {
			t.Fatalf("a token that was read cannot be written: %v", err)
		}
		if c != strings.ToLower(strings.Join(strings.Fields(text), "")) {
			t.Fatalf("%q is spelled %q", text, c)
		}
	})
}
