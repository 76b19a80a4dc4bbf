package evidence

import (
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/ferry-fleet/ferry"
)

// Outside gives the changed paths that no entry of touches covers. An entry
// is a glob (`**` crosses directories); one that names a directory covers all
// below it. No touches cover everything.
func Outside(touches []string, files []ferry.File) []string {
	if len(touches) == 0 {
		return nil
	}
	var out []string
	for _, f := range files {
		if !slices.ContainsFunc(touches, func(t string) bool { return covers(t, f.Path) }) {
			out = append(out, f.Path)
		}
	}
	return out
}

func covers(touch, file string) bool {
	t := strings.TrimSuffix(path.Clean(strings.TrimSpace(touch)), "/")
	t = strings.TrimPrefix(t, "./")
	if t == "." {
		return true
	}
	return doublestar.MatchUnvalidated(t, file) || doublestar.MatchUnvalidated(t+"/**", file)
}

// Rule names files that take part in running checks. Globs without a slash
// match in every directory. Added says that such a file also counts when the
// change creates it, because its mere presence redirects a check.
type Rule struct {
	Name    string
	Globs   []string
	Added   bool
	Example string // one path that the rule is for, used by its test
}

// Rules gives the table of what counts as a part of the checks.
func Rules() []Rule {
	return []Rule{
		{"make", []string{"Makefile", "*.mk", "CMakeLists.txt", "*.cmake", "meson.build", "justfile", "Taskfile.y*ml", "Rakefile", "BUILD", "BUILD.bazel", "WORKSPACE"}, false, "lib/Makefile"},
		{"make that shadows another", []string{"GNUmakefile", "makefile", ".envrc", ".env"}, true, "GNUmakefile"},
		{"go module", []string{"go.mod", "go.sum"}, false, "go.mod"},
		{"go module redirected", []string{"go.work", "go.work.sum", "vendor/**"}, true, "vendor/x/y.go"},
		{"go test", []string{"*_test.go", "**/testdata/**", "testdata/**"}, false, "sign/key_test.go"},
		{"node package", []string{"package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock*", "tsconfig*.json"}, false, "web/package.json"},
		{"node test setup", []string{".npmrc", ".yarnrc*", "jest.config.*", "vitest.config.*", "vite.config.*", ".mocharc*", "playwright.config.*", "babel.config.*", "node_modules/**"}, true, "jest.config.js"},
		{"node test", []string{"*.test.*", "*.spec.*", "**/__tests__/**", "__tests__/**", "**/__snapshots__/**"}, false, "src/a.test.ts"},
		{"python project", []string{"pyproject.toml", "requirements*.txt", "Pipfile*", "poetry.lock", "uv.lock", "setup.py"}, false, "pyproject.toml"},
		{"python test setup", []string{"conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "noxfile.py", "sitecustomize.py", "usercustomize.py", "*.pth"}, true, "tests/conftest.py"},
		{"python test", []string{"test_*.py", "*_test.py"}, false, "pkg/test_a.py"},
		{"cargo", []string{"Cargo.toml", "Cargo.lock"}, false, "Cargo.toml"},
		{"cargo redirected", []string{"build.rs", "**/.cargo/config*", ".cargo/config*", "rust-toolchain*", ".config/nextest.toml"}, true, ".cargo/config.toml"},
		{"jvm", []string{"pom.xml", "build.gradle*", "settings.gradle*", "gradle.properties", "gradle/**", "build.sbt", "*Test.java", "*Test.kt", "*Spec.scala"}, false, "app/build.gradle.kts"},
		{"ruby, php, elixir, dotnet", []string{"Gemfile*", "*_spec.rb", "*_test.rb", ".rspec", "composer.json", "composer.lock", "phpunit.xml*", "*Test.php", "mix.exs", "mix.lock", "*_test.exs", "*.csproj", "*.sln", "Directory.Build.*"}, false, "spec/a_spec.rb"},
		{"tests by folder", []string{"tests/**", "test/**", "**/tests/**", "**/test/**", "spec/**"}, false, "tests/run.sh"},
		{"CI", []string{".github/workflows/**", ".github/actions/**", ".gitlab-ci.y*ml", ".circleci/**", ".ci/**", "Jenkinsfile", "azure-pipelines.y*ml", ".pre-commit-config.yaml", "Dockerfile"}, true, ".github/workflows/ci.yml"},
	}
}

// CheckInputs gives the changed files that the order's checks run or rely on:
// what a command of a check names, and what [Rules] lists. Files that the
// change adds count only where their presence alone redirects a check: a new
// test file is work, an edited one has to be read.
func CheckInputs(o *ferry.Order, files []ferry.File) []string {
	if len(o.Checks) == 0 {
		return nil
	}
	rules := Rules()
	var named []string
	for _, c := range o.Checks {
		named = append(named, commandInputs(c)...)
	}
	var out []string
	for _, f := range files {
		if f.Status != "A" && slices.ContainsFunc(named, func(n string) bool { return names(n, f.Path) }) || ruled(rules, f) {
			out = append(out, f.Path)
		}
	}
	return out
}

func ruled(rules []Rule, f ferry.File) bool {
	for _, r := range rules {
		if f.Status == "A" && !r.Added {
			continue
		}
		for _, g := range r.Globs {
			if !strings.Contains(g, "/") {
				g = "**/" + g
			}
			if doublestar.MatchUnvalidated(g, f.Path) {
				return true
			}
		}
	}
	return false
}

func names(word, file string) bool {
	return word == file || strings.ContainsAny(word, "*?[") && doublestar.MatchUnvalidated(word, file)
}

// readers lists commands that only look at their operands: the file that they
// name is what the check is about, not a part of the check.
const readers = " test [ [[ grep egrep fgrep rg cat head tail wc ls stat find jq file echo printf cd true false git du "

// interpreters lists commands that run what they are given on standard input.
const interpreters = " sh bash dash zsh ksh python python3 node perl ruby xargs "

// commandInputs gives the words of a check that may name a file it runs or
// compares with, relative to the root of the tree. A directory that the
// command changes into is taken in front of them as well.
func commandInputs(check string) []string {
	segments := shellWords(check)
	piped := slices.ContainsFunc(segments, func(s []string) bool { return len(s) == 1 && among(interpreters, s[0]) })
	var out, dirs []string
	for _, words := range segments {
		for len(words) > 1 && strings.Contains(words[0], "=") {
			words = words[1:] // NAME=value in front of a command
		}
		if len(words) == 2 && words[0] == "cd" {
			dirs = append(dirs, words[1])
		}
		reads := !piped && among(readers, words[0])
		for i, w := range words {
			option := i > 0 && (words[i-1] == "-f" || words[i-1] == "--file" || words[i-1] == "<")
			module := i > 0 && words[i-1] == "-m"
			switch {
			case reads && !option:
			case module:
				p := strings.ReplaceAll(w, ".", "/")
				out = append(out, p+".py", p+"/__main__.py")
			case strings.ContainsAny(w, " \t\n"):
				out = append(out, commandInputs(w)...) // a command line in quotes: sh -c '…'
			default:
				out = append(out, cleanWord(w))
			}
		}
	}
	for _, d := range dirs {
		for _, w := range slices.Clone(out) {
			out = append(out, path.Join(d, w))
		}
	}
	return out
}

func among(list, word string) bool { return strings.Contains(list, " "+path.Base(word)+" ") }

func cleanWord(w string) string {
	if _, value, ok := strings.Cut(w, "="); ok && strings.HasPrefix(w, "-") {
		w = value // --config=path
	}
	return path.Clean(strings.TrimPrefix(w, "/work/"))
}

// shellWords splits a command line into commands and those into words. It
// knows quotes and separators, which is what finding file names needs; it does
// not expand anything.
func shellWords(s string) [][]string {
	var out [][]string
	var words []string
	var word strings.Builder
	var quote rune
	endWord := func() {
		if word.Len() > 0 {
			words = append(words, word.String())
			word.Reset()
		}
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			out = append(out, words)
			words = nil
		}
	}
	for _, r := range s {
		switch {
		case quote == '\'' && r != '\'':
			word.WriteRune(r)
		case r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case strings.ContainsRune(";|&\n(){}`$", r):
			endCommand()
		case r == '<' || r == '>':
			endWord()
			words = append(words, string(r))
		case quote == '"' || r != ' ' && r != '\t':
			word.WriteRune(r)
		default:
			endWord()
		}
	}
	endCommand()
	return out
}
