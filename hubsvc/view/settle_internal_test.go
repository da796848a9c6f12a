package view

import "testing"

func TestNothingNewIsNotTheMapThatOthersGoOnWritingTo(t *testing.T) {
	n := newNews()
	taken := n.take()
	n.reported["edge-1"] = struct{}{}
	if len(taken) != 0 {
		t.Errorf("what was taken before anything came is %v", taken)
	}
	if taken = n.take(); len(taken) != 1 || len(n.take()) != 0 {
		t.Errorf("what came is %v", taken)
	}
}
