package process

import (
	"io"
	"os"
	"sync"
	"time"
)

// streams connects a child to the reader and writers of its Spec. The pipes are ours and not those of exec.Cmd,
// because the leader must stay unreaped (and its pid ours) while its last output is read.
type streams struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	childs []*os.File // ends that the child inherits, closed here once it runs
	ours   []*os.File // read ends
	feed   *os.File   // write end of stdin
	source io.Reader
	copies []func()
	wg     sync.WaitGroup
	idle   chan struct{} // closed when every copy of output has ended
}

func openStreams(spec Spec) (*streams, error) {
	s := &streams{idle: make(chan struct{})}
	err := s.openOutput(spec)
	if err == nil {
		err = s.openInput(spec.Stdin)
	}
	if err != nil {
		closeFiles(s.childs)
		closeFiles(s.ours)
		return nil, err
	}
	return s, nil
}

func (s *streams) openOutput(spec Spec) (err error) {
	if s.stdout, err = s.output(spec.Stdout); err != nil {
		return err
	}
	if sameWriter(spec.Stdout, spec.Stderr) {
		s.stderr = s.stdout
		return nil
	}
	s.stderr, err = s.output(spec.Stderr)
	return err
}

// output returns what the child writes to so that it arrives at w: w itself when it is a file, else a pipe.
func (s *streams) output(w io.Writer) (io.Writer, error) {
	if w == nil {
		return nil, nil
	}
	if file, ok := w.(*os.File); ok {
		return file, nil
	}
	r, child, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.ours, s.childs = append(s.ours, r), append(s.childs, child)
	s.copies = append(s.copies, func() {
		if _, err := io.Copy(w, r); err != nil {
			// The writer is full or closed: the child must not block on a pipe that nobody reads.
			_, _ = io.Copy(io.Discard, r)
		}
	})
	return child, nil
}

func (s *streams) openInput(r io.Reader) error {
	if r == nil {
		return nil
	}
	if file, ok := r.(*os.File); ok {
		s.stdin = file
		return nil
	}
	child, feed, err := os.Pipe()
	if err != nil {
		return err
	}
	s.stdin, s.feed, s.source = child, feed, r
	s.childs = append(s.childs, child)
	return nil
}

// started closes the child's ends and begins to copy.
func (s *streams) started() {
	closeFiles(s.childs)
	for _, c := range s.copies {
		s.wg.Go(c)
	}
	go func() {
		s.wg.Wait()
		close(s.idle)
	}()
	if s.feed != nil {
		// Nobody waits for this one: a source that blocks for ever must not hold the end of the process. It ends
		// with its source, or at the first write after close.
		go func() {
			_, _ = io.Copy(s.feed, s.source) // a child may end without reading its input
			_ = s.feed.Close()
		}()
	}
}

// drain waits until the output has ended, at most for grace.
func (s *streams) drain(grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-s.idle:
	case <-timer.C:
	}
}

// close ends every copy, after a last short wait for what the pipes still hold, and releases the pipes.
func (s *streams) close() {
	s.drain(pipeGrace / 4)
	closeFiles(s.ours)
	<-s.idle
	if s.feed != nil {
		_ = s.feed.Close() // closed already when the source has ended
	}
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // pipe ends: there is nothing to flush
	}
}
