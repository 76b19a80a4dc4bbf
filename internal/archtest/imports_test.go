package archtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// find returns the room of a package: by its name, else by the closest "/..." above it.
func find(pkg string) (room, bool) {
	best, ok := room{}, false
	for _, r := range rooms {
		if r.name == pkg {
			return r, true
		}
		if tree, wild := strings.CutSuffix(r.name, "/..."); wild && strings.HasPrefix(pkg, tree+"/") && len(r.name) > len(best.name) {
			best, ok = r, true
		}
	}
	return best, ok
}

// may reports whether the package of room r at path pkg may import target.
func (r room) may(pkg, target string) bool {
	for _, use := range strings.Fields(r.uses) {
		if use = strings.Replace(use, "+", pkg, 1); use == target {
			return true
		}
		if tree, wild := strings.CutSuffix(use, "/..."); wild && strings.HasPrefix(target, tree+"/") {
			return true
		}
		if to, ok := find(target); use == "*" && ok && to.level < r.level && !slices.Contains(testsOnly, target) {
			return true
		}
	}
	return false
}

func checkImports(s source) (out []offence) {
	from, ok := find(s.pkg)
	if !ok {
		return []offence{s.offence("imports", s.ast.Package, s.pkg, "package "+s.pkg+" has no line in the table of internal/archtest")}
	}
	for _, imp := range s.ast.Imports {
		target, ours := ownPackage(strings.Trim(imp.Path.Value, `"`))
		if !ours || from.may(s.pkg, target) {
			continue
		}
		text := fmt.Sprintf("%s (level %d) may not import %s", s.pkg, from.level, target)
		if slices.Contains(testsOnly, target) {
			text += ", which is for tests only"
		} else if to, ok := find(target); ok {
			text += fmt.Sprintf(" (level %d); it may import: %s", to.level, from.uses)
		}
		out = append(out, s.offence("imports", imp.Pos(), target, text))
	}
	return out
}

func ownPackage(importPath string) (string, bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

// TestRoomsAreOrdered checks the table itself: its edges lead down, except inside of level 0, inside of one tree and for
// land, and they have no circle.
func TestRoomsAreOrdered(t *testing.T) {
	position := map[string]int{}
	for i, r := range rooms {
		if _, twice := position[r.name]; twice {
			t.Errorf("%s stands twice in the table", r.name)
		}
		position[r.name] = i
	}
	for _, r := range rooms {
		tree, _, _ := strings.Cut(r.name, "/")
		for _, use := range strings.Fields(r.uses) {
			if use == "*" || strings.HasPrefix(use, "+/") {
				continue
			}
			to, ok := find(use)
			if !ok {
				t.Errorf("%s may import %s, which is not in the table", r.name, use)
				continue
			}
			toTree, _, _ := strings.Cut(to.name, "/")
			sameTree := tree == toTree && tree != "internal"
			if to.level > r.level || to.level == r.level && r.level > 0 && !sameTree && r.name != "land" {
				t.Errorf("%s (level %d) may import %s (level %d)", r.name, r.level, to.name, to.level)
			}
			if to.level == 3 && r.level == 3 && !sameTree {
				t.Errorf("the roles %s and %s may not know each other", r.name, to.name)
			}
			if to.may(to.name, r.name) && !sameTree {
				t.Errorf("%s and %s may import each other", r.name, to.name)
			}
		}
	}
}
