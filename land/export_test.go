package land

import "context"

// LandUntil lands and calls at between the steps, so that a test can end the
// landing there.
func LandUntil(ctx context.Context, s Spec, at func(step string)) (Outcome, error) {
	task, err := s.Channel.Task(ctx, s.Order)
	if err != nil {
		return Outcome{}, err
	}
	l := newLanding(s, task)
	l.at = at
	return l.land(ctx)
}
