package fleet

import (
	"strings"
	"testing"
	"time"
)

func TestATokenOfTheHubSaysWhenItExpires(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	made := NewOperatorToken(now.Add(OperatorLifetime))
	if expires, ok := OperatorExpiry(made); !ok || !expires.Equal(now.Add(OperatorLifetime)) || OperatorDue(made, now) {
		t.Errorf("expires %v, %v", expires, ok)
	}
	if made == NewOperatorToken(now.Add(OperatorLifetime)) || strings.ContainsAny(made, " .\n") || redact("token "+made) != "token plural_[redacted]" {
		t.Error("it is not random, no single word, or not hidden where it turns up")
	}
	soon := now.Add(OperatorLifetime - OperatorRenewal)
	if OperatorDue(made, soon.Add(-time.Second)) || !OperatorDue(made, soon) {
		t.Error("it is not due a while before it expires")
	}
	for _, other := range []string{"", "a token of somebody's own, of some length", NewToken(), "plural_operator_x_y", "plural_operator_17", "plural_operator_99999999999999999999_x"} {
		if _, ok := OperatorExpiry(other); ok || !OperatorDue(other, now) {
			t.Errorf("%q says when it expires", other)
		}
	}
}
