package main

import (
	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

// taskOf gives the shape of a task in a list.
func taskOf(t *ferry.Task, members []ferry.Member) taskShape {
	s := taskShape{
		ID: t.ID.String(), Label: string(t.Order.Label), Project: t.Order.Project, State: string(t.State), Hold: t.Hold,
		To: string(t.To), Holder: name(members, t.Holder), Attempt: t.Attempt, Revision: t.Revision,
		Kind: t.Order.Kind, Size: t.Order.Size, IssuedBy: name(members, t.Issuer), CreatedAt: t.IssuedAt.UTC(),
	}
	if n := len(t.Attempts); n > 0 && t.Attempts[n-1].Begun != nil {
		s.Engine = t.Attempts[n-1].Begun.Engine
	}
	return s
}

// wholeOf gives the shape of a task alone.
func wholeOf(t *ferry.Task, members []ferry.Member) wholeShape {
	o := t.Order
	s := wholeShape{
		taskShape: taskOf(t, members), Text: o.Text, Touches: list(o.Touches), Checks: list(o.Checks),
		DependsOn: []string{}, Attachments: []string{}, RequiresReview: o.NeedsReview, RequiresApproval: o.NeedsApproval,
		Target: o.Target, Base: string(o.Base),
	}
	if len(t.Results) > 0 {
		s.Branch = t.Branch()
	}
	for _, d := range o.DependsOn {
		s.DependsOn = append(s.DependsOn, d.String())
	}
	for _, f := range o.Attachments {
		s.Attachments = append(s.Attachments, f.Name)
	}
	if t.Landed != nil {
		s.Landed = string(t.Landed.Commit)
	}
	return s
}

// showOf gives everything about a task.
func showOf(t *ferry.Task, members []ferry.Member, ledger []channel.Entry) showShape {
	s := showShape{
		Task: wholeOf(t, members), Attempts: []attemptShape{}, Results: []resultShape{}, Reviews: []reviewShape{},
		Findings: []findingShape{}, Questions: []questionShape{}, Ledger: recordsOf(ledger, members),
	}
	for _, at := range t.Attempts {
		s.Attempts = append(s.Attempts, attemptOf(&at, members))
	}
	for i := range t.Results {
		o := &t.Results[i]
		s.Results = append(s.Results, resultOf(t, o, members))
		for _, r := range o.Verdicts {
			s.Reviews = append(s.Reviews, reviewShape{
				Revision: o.Result.Revision, Reviewer: name(members, r.Writer), Accepted: r.Decision == ferry.DecisionKeep,
				Decision: string(r.Decision), Notes: r.Notes, At: r.At.UTC(),
			})
		}
	}
	for _, q := range t.Questions {
		s.Questions = append(s.Questions, questionOf(t, q))
	}
	return s
}

func attemptOf(at *ferry.Attempt, members []ferry.Member) attemptShape {
	s := attemptShape{N: at.N, Holder: name(members, at.Holder), Runs: []runShape{}}
	if at.Stop != nil {
		s.Stop, s.Note = string(at.Stop.Reason), at.Stop.Note
	}
	for _, r := range at.Runs {
		s.Runs = append(s.Runs, runShape{
			Run: string(r.Run), Engine: r.Engine, Model: r.Model, StartedAt: r.Started, EndedAt: r.Ended,
			Outcome: string(r.Outcome), Reason: r.Reason, Commit: string(r.Commit), Usage: usageOf(r.Usage),
		})
	}
	return s
}

func resultOf(t *ferry.Task, o *ferry.Outturn, members []ferry.Member) resultShape {
	r := o.Result
	s := resultShape{
		ID: o.ID.String(), Revision: r.Revision, Attempt: r.Attempt, Agent: name(members, o.Writer), Engine: r.Engine, Model: r.Model,
		Base: string(r.Base), Commit: string(r.Commit), Tree: string(r.Tree), Branch: r.Branch, Files: []fileShape{}, Checks: []checkedRun{},
		Evidence: evidenceShape{Status: string(o.Evidence.Status), Reasons: list(o.Evidence.Reasons)}, Usage: usageOf(r.Usage),
		Routing: routingShape{Engine: r.Engine, Model: r.Model, Reason: "the engine of " + name(members, o.Writer)},
		Sandbox: r.Sandbox.Level, Answer: r.Answer, Summary: r.Summary, Standing: o.ID == t.Standing,
	}
	for _, f := range r.Files {
		s.Files = append(s.Files, fileShape{Path: f.Path, Status: f.Status, Added: f.Added, Deleted: f.Deleted, Binary: f.Binary})
	}
	for _, c := range r.Checks {
		s.Checks = append(s.Checks, checkedRun{Command: c.Command, Exit: c.Exit, Tail: c.Tail, Reason: c.Reason, Millis: c.Millis})
	}
	return s
}

func usageOf(u ferry.Usage) usageShape {
	return usageShape{
		Requests: u.Requests, TokensIn: u.TokensIn, TokensOut: u.TokensOut,
		CostUSD: float64(u.CostMicroUSD) / 1e6, CostSource: u.CostSource,
	}
}

func questionOf(t *ferry.Task, q ferry.Open) questionShape {
	s := questionShape{
		ID: q.ID.String(), Order: t.ID.String(), Label: string(t.Order.Label), Text: q.Question.Text,
		Options: []optionShape{}, At: q.At.UTC(),
	}
	for _, o := range q.Question.Options {
		s.Options = append(s.Options, optionShape{Name: o.Name, Text: o.Text})
	}
	return s
}

func recordsOf(entries []channel.Entry, members []ferry.Member) []recordShape {
	out := []recordShape{}
	for _, e := range entries {
		s := recordShape{
			ID: e.ID.String(), Type: string(e.Type), Writer: name(members, e.Writer), Seq: e.Seq, Time: e.Time.UTC(),
			Says: says(e.Body), Counted: e.Counted, Why: e.Why,
		}
		if e.Body != nil && !e.Body.Subject().IsZero() {
			s.Order = e.Body.Subject().String()
		}
		out = append(out, s)
	}
	return out
}

// list makes a nil list an empty one, so that JSON says [] and not null.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
