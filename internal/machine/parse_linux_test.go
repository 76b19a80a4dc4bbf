package machine

import "testing"

func TestParse(t *testing.T) {
	if load, err := parseLoad("0.53 0.20 0.10 1/234 5678\n"); load != 0.53 || err != nil {
		t.Errorf("parseLoad = %v, %v", load, err)
	}
	if mem, err := parseMemory("MemTotal: 8 kB\nMemAvailable:    1234 kB\n"); mem != 1234<<10 || err != nil {
		t.Errorf("parseMemory = %v, %v", mem, err)
	}
	for _, bad := range []string{"", "x", "MemAvailable: x kB"} {
		if _, err := parseMemory(bad); err == nil {
			t.Errorf("parseMemory(%q) succeeded", bad)
		}
		if _, err := parseLoad(bad); err == nil {
			t.Errorf("parseLoad(%q) succeeded", bad)
		}
	}
}
