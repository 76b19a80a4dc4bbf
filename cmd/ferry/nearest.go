package main

// nearest gives the name that s was probably meant to be: the one with the
// fewest edits, if that is at most a third of it.
func nearest(s string, names []string) (string, bool) {
	best, least := "", len(s)+1
	for _, n := range names {
		if d := edits(s, n); d < least {
			best, least = n, d
		}
	}
	return best, best != "" && least <= max(len(best), 3)/3
}

// edits is the Levenshtein distance over bytes, where two neighbours that
// changed places are one edit.
func edits(a, b string) int {
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := row[j]
			if a[i] != b[j] {
				cost = 1 + min(row[j], row[j+1], next[j])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				cost = min(cost, before[j-1]+1)
			}
			next[j+1] = cost
		}
		before, row = row, next
	}
	return row[len(b)]
}
