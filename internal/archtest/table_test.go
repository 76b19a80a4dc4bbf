package archtest

const modulePath = "github.com/ferry-fleet/ferry"

// room is one package: its level, and the packages of ours that it may import. "+/..." stands for the packages below it,
// and "*" for every package of a lower level that is not for tests.
type room struct {
	name  string // path in the module, "." for the root; a trailing "/..." covers all packages below
	level int
	uses  string
}

// testsOnly are the packages that only tests may import.
var testsOnly = []string{"internal/modelserver", "internal/ferrytest", "internal/ferrytest/sim", "internal/enginetests", "internal/fleettests", "internal/attack", "internal/archtest", "engines/enginetest", "carrier/carriertest", "gateway/gatewaytest"}

// rooms is the whole house. A package imports from lower levels only; those of level 0 and the parts of one tree may
// build on each other where it is said here.
var rooms = []room{
	{".", 0, ""},
	{"sign", 0, "internal/atomicfile"},
	{"sign/secret", 0, "sign internal/atomicfile"},
	{"internal/atomicfile", 0, ""},
	{"internal/process", 0, ""},
	{"internal/box", 0, "internal/process internal/atomicfile"},
	{"internal/egress", 0, "internal/box"},
	{"internal/machine", 0, ""},
	{"internal/provider", 0, "internal/redact"},
	{"internal/redact", 0, ""},
	{"internal/skill", 0, "internal/atomicfile"},
	{"internal/sqlite", 0, "internal/atomicfile"},
	{"internal/archtest", 0, ""},
	{"internal/modelserver", 0, ""},
	{"internal/modelserver/run", 0, "internal/modelserver"},

	{"authority", 1, ". sign"},
	{"policy", 1, "."},
	{"policy/shell", 1, ""},
	{"router", 1, "."},
	{"engines", 1, ". internal/process internal/box internal/egress internal/provider internal/redact"},
	{"engines/enginetest", 1, ". engines"},
	{"carrier", 1, ". internal/process internal/atomicfile"},
	{"carrier/...", 1, ". carrier internal/process internal/atomicfile"},
	{"internal/worktree", 1, ". internal/process internal/box internal/atomicfile"},
	{"internal/gitfacts", 1, "."},

	{"channel", 2, ". sign authority internal/atomicfile internal/sqlite internal/redact internal/machine"},
	{"evidence", 2, ". internal/process internal/box internal/worktree internal/gitfacts internal/redact"},
	{"recorder", 2, ". sign internal/atomicfile internal/redact"},
	{"coder", 2, "+/... . policy policy/shell engines internal/process internal/box internal/redact internal/skill internal/atomicfile internal/sqlite"},
	{"coder/...", 2, "coder/... . policy policy/shell engines internal/process internal/box internal/redact internal/skill internal/atomicfile internal/sqlite"},
	// Landing rests on evidence and is decided on the channel, which is on the same level.
	{"land", 2, ". sign authority channel evidence internal/worktree internal/gitfacts internal/process internal/atomicfile internal/redact"},

	{"worker", 3, ". sign authority channel engines evidence policy recorder router " + roleRooms},
	{"adversary", 3, ". sign authority channel engines evidence policy recorder router " + roleRooms},
	{"improve", 3, ". sign authority channel engines evidence policy recorder router " + roleRooms},
	{"gateway", 3, "+/... . sign authority channel policy land internal/redact internal/atomicfile"},
	{"gateway/...", 3, ". gateway sign authority channel policy internal/redact internal/atomicfile"},
	{"dashboard", 3, ". sign authority channel evidence policy recorder router land internal/gitfacts internal/machine internal/redact internal/atomicfile"},

	{"internal/ferrytest", 3, "* engines/enginetest"},
	{"internal/ferrytest/sim", 4, ". sign authority channel evidence land worker"},
	{"internal/ferrytest/sim/run", 5, "internal/ferrytest/sim"},
	{"internal/enginetests", 4, ". internal/modelserver internal/process internal/ferrytest"},
	{"internal/fleettests", 4, "internal/process internal/ferrytest"},
	{"internal/attack", 4, ". sign authority channel land evidence internal/box internal/process internal/worktree internal/gitfacts internal/ferrytest"},
	{"cmd/ferry", 4, "*"},
}

const roleRooms = "internal/process internal/box internal/worktree internal/gitfacts internal/machine internal/redact internal/atomicfile internal/skill"

// dependencies are the modules that we import ourselves, with the reason. A new one needs an ADR.
var dependencies = map[string]string{
	"filippo.io/edwards25519":                "refusing weak public keys",
	"filippo.io/age":                         "sealing secrets to recipients",
	"charm.land/bubbletea/v2":                "the chat screen",
	"charm.land/lipgloss/v2":                 "the chat screen",
	"charm.land/bubbles/v2":                  "the chat screen",
	"charm.land/catwalk":                     "prices and context windows of known models",
	"github.com/bmatcuk/doublestar/v4":       "path patterns of orders and policies",
	"github.com/fsnotify/fsnotify":           "waking on changes of the folder",
	"github.com/go-git/go-git/v5":            "reading git objects",
	"github.com/go-git/go-billy/v5":          "the filesystem interface of go-git",
	"github.com/go-telegram/bot":             "the Telegram gateway",
	"github.com/gofrs/flock":                 "locks between processes",
	"github.com/google/go-cmp":               "tests",
	"github.com/gorilla/websocket":           "the dashboard's live rows",
	"github.com/mattn/go-sqlite3":            "the index",
	"github.com/mdp/qrterminal/v3":           "the QR code of an invite",
	"github.com/modelcontextprotocol/go-sdk": "MCP, both directions",
	"github.com/olekukonko/tablewriter":      "tables of the command line",
	"github.com/pelletier/go-toml/v2":        "configuration files",
	"github.com/prometheus/client_golang":    "metrics",
	"github.com/rogpeppe/go-internal":        "testscript and file locks",
	"github.com/sergi/go-diff":               "line diffs, as go-git makes them",
	"github.com/spf13/cobra":                 "the command line",
	"github.com/spf13/pflag":                 "the flags of cobra",
	"github.com/syncthing/syncthing":         "the embedded carrier",
	"github.com/tyler-smith/go-bip39":        "the word list of the six words",
	"golang.org/x/crypto":                    "scrypt",
	"golang.org/x/net":                       "assembling the system call filter of the sandbox",
	"golang.org/x/sync":                      "groups of goroutines",
	"golang.org/x/sys":                       "system calls",
	"golang.org/x/term":                      "terminals",
	"pgregory.net/rapid":                     "property tests",
}

// maxReplaces is how many replace lines go.mod may have: the embedded carrier's.
const maxReplaces = 1

// Limits of size. A table is a function whose body is one switch or one composite literal and little else.
const (
	maxFileLines     = 500
	maxFuncLines     = 60
	maxTableLines    = 100
	maxAroundTable   = 10
	maxParameters    = 4
	maxOffencesShown = 200
)

// A call has a home: outside of it, it is an offence. The home is a list of packages, and "tests" is not one of them
// because no rule about calls is for test files.
type call struct {
	path  string // import path
	names string // names in it, "" for the import as such
	home  string
	why   string
}

var calls = []call{
	{"os/exec", "", "internal/process", "processes are started by internal/process only"},
	{"io/ioutil", "", "", "io/ioutil is superseded by io and os"},
	{"os", "WriteFile Create", "internal/atomicfile engines/enginetest internal/ferrytest", "files are written by internal/atomicfile only"},
	{"net/http", "DefaultClient Get Head Post PostForm", "", "an *http.Client is passed in"},
	{"log/slog", "Default SetDefault Debug Info Warn Error Log DebugContext InfoContext WarnContext ErrorContext", "", "a *slog.Logger is passed in"},
	{"log", "Print Printf Println Fatal Fatalf Fatalln Panic Panicf Panicln Default", "", "a *slog.Logger is passed in"},
	{"time", "Now Since Until", "", "the time is a parameter; the files that read the clock are listed in clocks"},
}

// clocks are the files that may read the wall clock, with the reason.
var clocks = map[string]string{
	"internal/process/process.go":      "measures how long a process ran",
	"internal/process/cgroup_linux.go": "waits a bounded time for a group to die",
	"internal/ferrytest/ferrytest.go":  "deadlines of tests",
	"internal/modelserver/server.go":   "stamps what the tests' server was asked",
	"internal/process/tree_linux.go":   "waits a bounded time for a tree to die",
	"engines/output.go":                "the clocks of a running engine",
	"engines/run.go":                   "the clocks of a running engine",
	"channel/scan.go":                  "whether a file has settled is a question of this moment",
	"worker/worker.go":                 "Run reads the clock for Pass",
	"worker/work.go":                   "the phases of a run on this machine",
	"cmd/ferry/app.go":                 "the commands' clock",
}

// exception allows one offence. where is "file" or "file:Name".
type exception struct {
	rule, where, reason string
}

var exceptions = []exception{}
