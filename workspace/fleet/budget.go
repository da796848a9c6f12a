package fleet

import (
	"fmt"
	"strconv"
	"strings"
)

// Budget is how many of something one step may delete. The zero value allows nothing.
type Budget struct {
	percent bool
	n       int
	floor   int
}

// DefaultBudget is what an empty budget means.
const DefaultBudget = "50%"

// ObjectFloor is how many objects one sync of a service may always delete under a share, so that small services can
// change shape.
const ObjectFloor = 10

// ParseBudget reads "N%", with N from 0 to 100, or a count. Empty is DefaultBudget.
func ParseBudget(s string) (Budget, error) {
	if s == "" {
		s = DefaultBudget
	}
	digits, percent := strings.CutSuffix(s, "%")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || digits[0] == '+' || (percent && n > 100) {
		return Budget{}, fmt.Errorf("parse budget %s: want a share such as \"50%%\" or a count such as \"10\"", quote(s))
	}
	return Budget{percent: percent, n: n}, nil
}

// AtLeast is the budget that also allows n where a share of the total would be fewer. A count stays as it was written.
func (b Budget) AtLeast(n int) Budget {
	if b.percent {
		b.floor = n
	}
	return b
}

// Allows says whether removed out of total is within the budget. Shares are rounded down.
func (b Budget) Allows(removed, total int) bool {
	limit := b.n
	if b.percent {
		limit = max(total*b.n/100, b.floor)
	}
	return removed <= limit
}
