package land_test

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/land"
	"github.com/ferry-fleet/ferry/sign"
)

// TestWhatArrivesMeanwhile lands an order that another machine takes back while the merge is checked: what is in the folder
// then is read before anything moves.
func TestWhatArrivesMeanwhile(t *testing.T) {
	f := newFleet(t, broken)
	id := f.order("t-1", nil)
	f.work(id, fixed)
	tip := f.git("rev-parse", "main")
	key, err := sign.GenerateKey(rand.Reader)
	f.must(err)
	_, err = f.operator.Admit(t.Context(), f.now, ferry.Member{
		Writer: ferry.WriterID(key.Public().WriterID()), Key: key.Public().String(), Name: "helper", Machine: "there",
		Grants: []ferry.Grant{ferry.GrantDispatch},
	})
	f.must(err)
	elsewhere := f.m.Beside("elsewhere", "")
	helper, err := elsewhere.Channel.Writer(key)
	f.must(err)
	out, err := land.LandUntil(t.Context(), f.spec("t-1"), func(step string) {
		if step != "checked" {
			return
		}
		_, err := elsewhere.Channel.Refresh(t.Context())
		f.must(err)
		_, err = helper.Cancel(t.Context(), f.now, ferry.Cancel{Order: id, Reason: "not needed"})
		f.must(err)
	})
	f.must(err)
	if out.Landed() || !strings.Contains(out.Decision.Reason, "cancelled") {
		t.Errorf("Land() = %+v, want a refusal", out.Decision)
	}
	if now := f.git("rev-parse", "main"); now != tip {
		t.Error("main has moved")
	}
}
