package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

// autoEvery is how often a member gets its next key without anybody comparing
// words.
const autoEvery = 24 * time.Hour

// letIn admits a guest, after the words were compared or somebody said that
// they need not be.
func (p *project) letIn(ctx context.Context, w *channel.Writer, g *guest, how admitHow) error {
	if g.taken != "" && how.name == "" {
		return faultf(classRefused, fmt.Sprintf("`ferry channel admit %s --name OTHER` admits it under another", strings.Join(g.words, " ")),
			"admit %s: a member on %s has this name", g.Name, g.taken)
	}
	if err := p.nameFree(ctx, ferry.AgentName(how.name)); err != nil {
		return err
	}
	if err := p.compare(ctx, g, &how); err != nil {
		return err
	}
	b, epoch, err := p.admission(ctx, g, how)
	if err != nil {
		return err
	}
	id, err := p.says(ctx, w, b)
	if err != nil {
		return err
	}
	shape := admittedShape{guestShape: shapeOfGuest(g), Grants: wordsOf(g.role.grants), Epoch: epoch, Auto: !how.compared, Record: id.String()}
	if how.name != "" {
		shape.Name = how.name
	}
	return p.app.print(shape, func(w io.Writer) {
		if g.member != nil {
			fmt.Fprintf(w, "%s goes on with its next key, as epoch %d\n", shape.Name, epoch)
			return
		}
		fmt.Fprintf(w, "%s on %s is a member, and may %s\n", shape.Name, oneLine(g.Machine), strings.Join(shape.Grants, ", "))
	})
}

// compare has a person compare the words, unless they were typed or nobody
// wants to.
func (p *project) compare(ctx context.Context, g *guest, how *admitHow) error {
	words := strings.Join(g.words, " ")
	switch {
	case how.compared:
		return nil
	case how.yes && g.member == nil:
		return nil
	case how.yes:
		return p.autoAllowed(ctx, g)
	case !p.app.talks(how.in):
		return misuse("compare them with the words that the machine shows, then `ferry channel admit "+words+"`; --yes does without",
			"admit %s: its words are %s", g.Name, words)
	}
	what := "as " + g.role.name
	if g.member != nil {
		what = "with its next key"
	}
	fmt.Fprintf(p.app.err, "%s on %s asks to join %s. Its words:\n\n  %s\n\n", g.Name, oneLine(g.Machine), what, words)
	yes, err := p.app.agrees(how.in, "Does the machine show the same six words?")
	if err == nil && !yes {
		err = faultf(classRefused, "if the words differ, somebody else asks under this name: make another code", "%s was not let in", g.Name)
	}
	how.compared = yes
	return err
}

// autoAllowed refuses a second key within a day that nobody compared: a
// machine that needs one so often is cloned, or not the machine.
func (p *project) autoAllowed(ctx context.Context, g *guest) error {
	admissions, err := p.channel.Admissions(ctx, g.member.Writer)
	if err != nil {
		return err
	}
	for _, rec := range admissions {
		if _, ok := rec.Body.(*ferry.Readmit); ok && p.app.now().Sub(rec.Time) < autoEvery {
			return faultf(classRefused, "compare the words, then `ferry channel admit "+strings.Join(g.words, " ")+"`",
				"admit %s --yes: it got a key at %s, and without the words it gets one a day", g.Name, rec.Time.Local().Format("2006-01-02 15:04"))
		}
	}
	return nil
}

// admission makes the record that lets a guest in.
func (p *project) admission(ctx context.Context, g *guest, how admitHow) (ferry.Body, int64, error) {
	if g.member == nil {
		m := ferry.Member{Writer: g.Writer, Key: g.Key, Name: ferry.AgentName(g.Name), Machine: g.Machine, Email: g.Email, Grants: g.role.grants}
		if how.name != "" {
			m.Name = ferry.AgentName(how.name)
		}
		return &ferry.Admit{Member: m, Epoch: 1, Invite: g.Invite, Nonce: g.Nonce, Auto: !how.compared}, 1, nil
	}
	c, err := p.cutOf(ctx, *g.member, how.cut)
	if err != nil {
		return nil, 0, err
	}
	return &ferry.Readmit{Writer: g.member.Writer, Epoch: c.Epoch + 1, Key: g.Key, Keep: c.Cut, Nonce: g.Nonce}, c.Epoch + 1, nil
}

// awaitGuest waits until somebody asks with an invite, and lets the machine
// in. With one for many it goes on until it is interrupted.
func (p *project) awaitGuest(ctx context.Context, w *channel.Writer, invite ferry.RecordID, how admitHow) error {
	a := p.app
	fmt.Fprintln(a.err, "Waiting for the machine to ask. Ctrl-C ends the wait and not the invite: `ferry channel admit` lets it in later.")
	declined := map[ferry.WriterID]bool{}
	return a.until(ctx, func() (bool, string, error) {
		if _, err := p.channel.Refresh(ctx); err != nil {
			return false, "", fmt.Errorf("read the channel: %w", err)
		}
		guests, err := p.guests(ctx)
		if err != nil {
			return false, "", err
		}
		for i := range guests {
			g := &guests[i]
			if g.Invite != invite || declined[g.Writer] {
				continue
			}
			declined[g.Writer] = true
			err := p.letIn(ctx, w, g, how)
			if err == nil && !how.many {
				return true, "", nil
			}
			if err != nil {
				a.fail(ctx, err)
			}
		}
		return false, "nobody has asked yet", nil
	})
}
