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

// edits is the Levenshtein distance over bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := left
			if a[i] != b[j] {
				cost = 1 + min(left, row[j], row[j+1])
			}
			left, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
