package channel

import (
	"context"
	"fmt"
	"time"

	"github.com/gofrs/flock"
)

// lockPoll is how often a process that waits for another looks again; the holder keeps the lock for a few milliseconds.
const lockPoll = 2 * time.Millisecond

// lock is held while the store or the index is written: by one goroutine of one process of this machine.
type lock struct {
	turn chan struct{}
	file *flock.Flock
}

func newLock(path string) *lock {
	return &lock{turn: make(chan struct{}, 1), file: flock.New(path, flock.SetPermissions(0o600))}
}

// acquire waits for the lock until ctx ends.
func (l *lock) acquire(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for the channel's lock: %w", ctx.Err())
	}
	if _, err := l.file.TryLockContext(ctx, lockPoll); err != nil {
		<-l.turn
		return fmt.Errorf("wait for the channel's lock %s: %w", l.file.Path(), err)
	}
	return nil
}

// try takes the lock if it is free.
func (l *lock) try() (bool, error) {
	select {
	case l.turn <- struct{}{}:
	default:
		return false, nil
	}
	ok, err := l.file.TryLock()
	if err != nil {
		err = fmt.Errorf("take the channel's lock %s: %w", l.file.Path(), err)
	}
	if !ok || err != nil {
		<-l.turn
		return false, err
	}
	return true, nil
}

func (l *lock) release() {
	_ = l.file.Unlock() // closing the file releases it whatever Unlock said
	<-l.turn
}

func (l *lock) close() error { return l.file.Close() }
