package process

// StartMark gives the start time of a process, by which a pid that was given
// to another process is told apart; 0 when there is no such process.
func StartMark(pid int) uint64 {
	mark, ok := startTime(pid)
	if !ok {
		return 0
	}
	return mark
}
