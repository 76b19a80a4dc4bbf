package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/machine"
	"github.com/ferry-fleet/ferry/sign"
)

// put puts the question into the folder. It is the same file on every call.
func (j *joining) put(context.Context) error {
	if j.done {
		return nil
	}
	key, err := sign.LoadKey(j.state.keyFile(j.token.Channel, j.base))
	if err != nil {
		return err
	}
	invite, err := j.token.Key()
	if err != nil {
		return err
	}
	r := channel.JoinRequest{
		Channel: j.token.Channel, Invite: j.token.Invite, Nonce: j.ask.Nonce, Name: string(j.ask.Name), Machine: machine.Name(), Email: j.c.Email,
	}
	v := version()
	r.Platform, r.Version = v.OS+"/"+v.Arch, v.Version
	if err := channel.PutJoin(j.c.Channel, r, channel.JoinKeys{Invite: invite, Own: key}); err != nil {
		return fault(classChannel, "make "+j.c.Channel+" writable for you, then run this again", err)
	}
	return nil
}

// wait waits for the master's answer.
func (j *joining) wait(ctx context.Context) error {
	a := j.a
	j.shape.ChannelID, j.shape.PublicKey = j.token.Channel.String(), j.ask.Key
	if j.done {
		return nil
	}
	if !a.json {
		fmt.Fprintf(a.err, "Asked to join as %s, %s. The words of this machine:\n\n  %s\n\n", j.ask.Name, j.role.name, strings.Join(j.ask.Words, " "))
	}
	if j.flags.noWait {
		return j.answer(ctx)
	}
	if !a.json {
		fmt.Fprintln(a.err, "Waiting for the master, whose machine has to show the same words. Ctrl-C ends the wait and not the question.")
	}
	return a.until(ctx, func() (bool, string, error) {
		if _, err := j.ch.Refresh(ctx); err != nil {
			return false, "", fmt.Errorf("read the channel: %w", err)
		}
		err := j.answer(ctx)
		return j.done, "the master has not answered yet: there, `ferry channel admit`", err
	})
}

// answer looks whether the master has answered.
func (j *joining) answer(ctx context.Context) error {
	a, ok, err := answered(ctx, j.ch, &j.ask)
	if err != nil || !ok {
		return err
	}
	if a.name != j.ask.Name {
		if err := j.rename(a.name); err != nil {
			return err
		}
	}
	j.done = true
	return j.state.settle(j.c, j.base, &j.ask)
}

// rename follows a master that has let this machine in under another name.
func (j *joining) rename(n ferry.AgentName) error {
	j.found("the master calls this machine's member %s", n)
	old := j.ask.Name
	j.ask.Name = n
	if j.role.person {
		return nil
	}
	id := j.token.Channel
	if err := os.Rename(j.state.agentKey(id, old), j.state.agentKey(id, n)); err != nil {
		return fmt.Errorf("call the agent %s: %w", n, err)
	}
	if err := os.Remove(j.state.asking(id, j.base)); err != nil {
		return fmt.Errorf("call the agent %s: %w", n, err)
	}
	j.base, j.c.Agent, j.shape.Agent = string(n), n, string(n)
	path := j.file(configFile)
	if j.second != "" {
		path = j.second
	}
	data, err := atomicfile.ReadBounded(path, maxConfig)
	if err != nil {
		return err
	}
	was, is := "agent = "+quoted(string(old)), "agent = "+quoted(string(n))
	text := strings.Replace(string(data), was, is, 1)
	if text == string(data) {
		j.warn("set %s in %s", is, path)
		return nil
	}
	return atomicfile.Write(path, []byte(text), 0o600)
}

// report says what was done and what comes next.
func (j *joining) report() error {
	j.shape.Enabled = j.done
	shape := joinedShape{enableShape: j.shape, Admitted: j.done, Name: string(j.ask.Name), Role: j.role.name, Words: j.ask.Words}
	shape.Next = j.ask.next()
	if j.done {
		shape.Words = []string{}
		shape.Next = "`ferry doctor`, then `ferry agent run`"
		if j.role.person {
			shape.Next = "`ferry doctor`, then `ferry channel tasks`"
		}
	}
	return j.a.print(shape, func(w io.Writer) {
		if j.done {
			fmt.Fprintf(w, "joined: project %s, as %s on %s\n", shape.Project, shape.Name, machine.Name())
		} else {
			fmt.Fprintf(w, "asked to join: project %s, as %s on %s\n", shape.Project, shape.Name, machine.Name())
		}
		field(w, "channel", shape.Channel)
		field(w, "engine", shape.Engine)
		field(w, "sandbox", shape.Sandbox)
		for _, f := range shape.Files {
			field(w, "wrote", f)
		}
		for _, f := range shape.Found {
			field(w, "found", f)
		}
		for _, f := range shape.Warnings {
			field(w, "warning", f)
		}
		fmt.Fprintln(w, "next: "+shape.Next)
	})
}
