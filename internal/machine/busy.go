package machine

// System is where the facts about how busy a computer is, and with whom, are read from. Use Here; a test has directories of
// its own. Where one of them is not there the system says nothing, and the facts are errors.
type System struct {
	Proc string // what the kernel says
	Dev  string // the terminals
}

// Here is the System of this computer.
func Here() System { return System{Proc: "/proc", Dev: "/dev"} }

// CPUTimes is how much time the processors have spent since the system started, in ticks of all cores together. Two of
// them give the load between them.
type CPUTimes struct {
	Busy  int64 // with work of any kind
	Total int64 // with that and without work
}

// Percent gives how busy the processors were since an earlier time, from 0 to 100, and whether time has passed between them.
func (c CPUTimes) Percent(since CPUTimes) (float64, bool) {
	busy, total := c.Busy-since.Busy, c.Total-since.Total
	if total <= 0 || busy < 0 {
		return 0, false
	}
	return min(100*float64(busy)/float64(total), 100), true
}
