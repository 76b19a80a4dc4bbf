package main

import (
	"context"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/channel"
)

// says writes one record under a writer.
func (p *project) says(ctx context.Context, w *channel.Writer, b ferry.Body) (ferry.RecordID, error) {
	ids, err := w.Update(ctx, p.app.now(), func(tx *channel.Tx) error {
		_, err := tx.Add(b)
		return err
	})
	if err := p.app.published(err); err != nil || len(ids) == 0 {
		return ferry.RecordID{}, err
	}
	return ids[0], nil
}

// member finds a member by its name, or by the beginning of its writer id.
func (p *project) member(ctx context.Context, who string) (ferry.Member, error) {
	roster, err := p.channel.Roster(ctx)
	if err != nil {
		return ferry.Member{}, err
	}
	if m, ok := roster.ByName(ferry.AgentName(who)); ok {
		return m, nil
	}
	var names []string
	for _, m := range roster.Members() {
		if len(who) >= 8 && strings.HasPrefix(string(m.Writer), who) {
			return m, nil
		}
		names = append(names, string(m.Name))
	}
	next := "`ferry channel members` lists them"
	if best, ok := nearest(who, names); ok {
		next = "did you mean " + best + "? " + next
	}
	return ferry.Member{}, faultf(classNotFound, next, "member %q: the channel has none of this name", clip(who, 64))
}

// anyMember is member, and finds those that were shut out as well.
func (p *project) anyMember(ctx context.Context, who string) (ferry.Member, error) {
	roster, err := p.channel.Roster(ctx)
	if err != nil {
		return ferry.Member{}, err
	}
	for _, w := range roster.Known() {
		if m, ok := roster.Member(w); ok && roster.Epoch(w) == 0 && strings.EqualFold(string(m.Name), who) {
			return m, nil
		}
	}
	return p.member(ctx, who)
}

// nameHolder gives the member that has a name. A name is never free again, so
// those that were shut out keep theirs.
func nameHolder(roster *authority.Roster, n ferry.AgentName) (ferry.Member, bool) {
	for _, w := range roster.Known() {
		if m, ok := roster.Member(w); ok && strings.EqualFold(string(m.Name), string(n)) {
			return m, true
		}
	}
	return ferry.Member{}, false
}

// lastEpoch gives the newest epoch of a writer, also of one that was shut out.
func lastEpoch(roster *authority.Roster, w ferry.WriterID) uint32 {
	epoch := uint32(0)
	for {
		if _, _, ok := roster.Key(w, epoch+1); !ok {
			return epoch
		}
		epoch++
	}
}
