//go:build soak

package fleettests_test

import (
	"testing"
	"time"
)

func TestSoakFleet2(t *testing.T) { soak(t, 2) }

func TestSoakFleet3(t *testing.T) { soak(t, 3) }

// soak takes many orders through on some machines, one worker of which is ended every few seconds.
func soak(t *testing.T, machines int) {
	t.Helper()
	orders := int(setting(t, "FERRY_SOAK_ORDERS", 500))
	minutes := time.Duration(setting(t, "FERRY_SOAK_MINUTES", 10)) * time.Minute
	plan{machines: machines, orders: orders, pause: 4 * time.Second, work: minutes, lands: min(orders, 20)}.run(t)
}
