package evidence_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/internal/gitfacts"
)

// BenchmarkMeasure measures a change of many files in one directory: the cost
// of a file must not grow with their number.
func BenchmarkMeasure(b *testing.B) {
	for _, n := range []int{200, 2000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			m := ferrytest.New(b, map[string]string{"README": "x\n"})
			base := ferry.Commit(m.Git("rev-parse", "HEAD"))
			files := map[string]string{}
			for i := range n {
				files[fmt.Sprintf("many/%05d.txt", i)] = fmt.Sprintf("line %d\n", i)
			}
			commit := m.Commit(files)
			m.Must(m.Gate.Import(b.Context(), commit))
			repo, err := gitfacts.Open(m.Gate.Dir())
			m.Must(err)
			defer repo.Close()
			for b.Loop() {
				_, err := evidence.Measure(b.Context(), evidence.Spec{Gate: m.Gate, Repo: repo, Order: &ferry.Order{}, Base: base, From: base, Commit: commit})
				m.Must(err)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/file")
		})
	}
}
