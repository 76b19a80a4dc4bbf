package egress_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/egress"
	"github.com/ferry-fleet/ferry/internal/process"
)

const inside = "egress-test-inside"

func TestMain(m *testing.M) {
	box.Main()
	if len(os.Args) > 2 && os.Args[1] == inside {
		tryFromInside(os.Args[2:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// tryFromInside is the program in the box. It prints what became of each try.
func tryFromInside(args []string) {
	plain, tlsPort, base := args[0], args[1], args[2]
	client := &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		Timeout:   10 * time.Second,
	}
	get := func(url string) string {
		resp, err := client.Get(url)
		if err != nil {
			return "failed"
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		word, _, _ := strings.Cut(string(body), ":")
		return fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(word))
	}
	dial := func(network, address string) string {
		c, err := net.DialTimeout(network, address, 2*time.Second)
		if err != nil {
			return "failed"
		}
		defer c.Close()
		if _, err := c.Write([]byte("x")); err != nil {
			return "failed"
		}
		return "worked"
	}
	lookup := func(name string) string {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if _, err := net.DefaultResolver.LookupHost(ctx, name); err != nil {
			return "failed"
		}
		return "worked"
	}
	json.NewEncoder(os.Stdout).Encode(map[string]string{
		"plain":            get("http://plain.test:" + plain + "/"),
		"TLS":              get("https://tls.test:" + tlsPort + "/"),
		"not on the list":  get("http://evil.test:" + plain + "/"),
		"TLS to another":   get("https://evil.test:" + tlsPort + "/"),
		"route":            get(base + "/models"),
		"port of the host": dial("tcp", "127.0.0.1:"+plain),
		"address outside":  dial("tcp", "203.0.113.1:443"),
		"datagram":         dial("udp", "203.0.113.1:53"),
		"abstract socket":  dial("unix", "@ferry-egress-test-"+plain),
		"lookup":           lookup("plain.test"),
	})
}

func TestBoxReachesWhatIsAllowedAndNothingElse(t *testing.T) {
	if _, err := process.LookPath("bwrap", "/usr/local/bin:/usr/bin:/bin"); err != nil {
		t.Skip("bubblewrap is not installed")
	}
	s := newRouteScene(t, func(s *scene, r *egress.Route) {
		r.Key, r.Upstream = "", "http://127.0.0.1:"+s.port(s.plain)+"/v1"
	})
	abstract, err := net.Listen("unix", "@ferry-egress-test-"+s.port(s.plain))
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	base, _, _ := s.proxy.Base("wisp")
	spec := s.proxy.Attach(box.Spec{
		Level: box.LevelBwrap, Net: box.NetOpen, Work: t.TempDir(), TmpBytes: 8 << 20,
		Binds: []box.Bind{{Host: exe, Path: "/run/ferry/test"}},
		Env:   []string{"HTTP_PROXY=http://elsewhere.test:1", "all_proxy=socks5://elsewhere.test:1", "LANG=C"},
	})
	c, err := spec.Command([]string{"/run/ferry/test", inside, s.port(s.plain), s.port(s.tls), base})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c.Spec.Stdout, c.Spec.Stderr = &out, os.Stderr
	if exit, err := process.Run(t.Context(), c.Spec); err != nil || exit.Code != 0 {
		t.Fatalf("%v, %v: %s", exit, err, out.Bytes())
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"plain": "200 hello", "TLS": "200 hello", "route": "200 hello", "not on the list": "403 ferry", "TLS to another": "failed",
		"port of the host": "failed", "address outside": "failed", "datagram": "failed", "abstract socket": "failed", "lookup": "failed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if d := s.find("evil.test", false); d.Count != 1 || d.Reason != "not on the list" {
		t.Errorf("decision %+v", d)
	}
}

func TestAttachTellsOfTheProxy(t *testing.T) {
	s := newScene(t, func(s *scene) { s.policy.Allow = s.entries("localhost:11434") })
	env := []string{"HTTP_PROXY=http://elsewhere.test:1", "No_Proxy=*", "ALL_PROXY=x", "LANG=C"}
	spec := s.proxy.Attach(box.Spec{Level: box.LevelBwrap, Net: box.NetOpen, Env: env})
	want := []string{
		"LANG=C", "HTTP_PROXY=http://127.0.0.1:3128", "HTTPS_PROXY=http://127.0.0.1:3128", "NO_PROXY=127.0.0.1,::1",
		"http_proxy=http://127.0.0.1:3128", "https_proxy=http://127.0.0.1:3128", "no_proxy=127.0.0.1,::1", "NODE_USE_ENV_PROXY=1",
	}
	if diff := cmp.Diff(want, spec.Env); diff != "" || spec.Net != box.NetProxy || spec.Serve == nil {
		t.Errorf("net %s: %s", spec.Net, diff)
	}
	if env[0] != "HTTP_PROXY=http://elsewhere.test:1" {
		t.Error("the caller's environment was changed")
	}
}
