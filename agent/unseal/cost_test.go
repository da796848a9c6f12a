package unseal_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/agent/unseal"
)

// Messages of a service are masked one by one, in the loop that serves all of them: what one seals must not hold that up.
func TestManyShortLinesCostNoMoreThanFewLongOnes(t *testing.T) {
	var lines strings.Builder
	var values []string
	for i := range 200_000 {
		fmt.Fprintf(&lines, "%04x\n", i%65536)
		values = append(values, fmt.Sprintf("%04x", i%65536))
	}
	message := strings.Repeat("Deployment shop/web: waits for 3 of 5 pods... ", 22)
	for name, sealed := range map[string][]string{"lines": {lines.String()}, "values": values} {
		start := time.Now()
		if said := unseal.Redact(message, sealed); strings.Contains(said, "Deployment") {
			t.Errorf("%s: %q is said, and nobody looked for all of them", name, said)
		}
		if took := time.Since(start); took > 500*time.Millisecond {
			t.Errorf("%s: it took %v", name, took)
		}
	}
	if said := unseal.Redact("it is 00ff", []string{strings.Repeat("00ff\n", 19_000)}); said != "it is ***" {
		t.Errorf("%q", said)
	}
}
