// Package budget owns the deletion budget.
package budget

import (
	"fmt"
	"strconv"
	"strings"
)

// Default is what an empty budget means.
const Default = "50%"

// ObjectFloor is how many objects one sync of a service may always delete under a share, so that small services can
// change shape.
const ObjectFloor = 10

// Budget is how many of something one step may delete. The zero value allows nothing.
type Budget struct {
	percent bool
	n       int
	floor   int
}

// Parse reads "N%", with N from 0 to 100, or a count. Empty is Default.
func Parse(s string) (Budget, error) {
	if s == "" {
		s = Default
	}
	digits, percent := strings.CutSuffix(s, "%")
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || (percent && n > 100) {
		return Budget{}, fmt.Errorf("deletion budget %q: want a share from \"0%%\" to \"100%%\", or a count such as \"10\"", s)
	}
	return Budget{percent: percent, n: int(n)}, nil
}

// AtLeast is the budget that also allows n where a share of the total would be fewer. A count, or a share of nothing,
// stays as it was written.
func (b Budget) AtLeast(n int) Budget {
	if b.percent && b.n > 0 {
		b.floor = n
	}
	return b
}

// Allowed is the most out of total that may go. Shares are rounded down.
func (b Budget) Allowed(total int) int {
	if !b.percent {
		return b.n
	}
	return max(total*b.n/100, b.floor)
}

// Allows says whether removed out of total is within the budget.
func (b Budget) Allows(removed, total int) bool { return removed <= b.Allowed(total) }

// String is the budget as Parse reads it.
func (b Budget) String() string {
	if b.percent {
		return strconv.Itoa(b.n) + "%"
	}
	return strconv.Itoa(b.n)
}
