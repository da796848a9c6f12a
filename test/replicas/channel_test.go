package replicas

import (
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// crowdSize is how many people work while the hub is updated.
const crowdSize = 50

// grace is how long a test looks on while a session goes on at a replica that was asked to end.
const grace = 3 * time.Second

// TestPeopleReachClustersWhileReplicasComeAndGo is a hub of three replicas as people see it who work with one cluster.
func TestPeopleReachClustersWhileReplicasComeAndGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, here())
	c := w.join()
	commit := w.origin.git(filepath.Join(w.origin.dir, "fleet-work"), "rev-parse", "HEAD")
	until(t, time.Minute, "three replicas serve the first commit", func() bool { return w.settled(commit) })
	c.connected()
	c.reachedFromAfar()
	pod := c.pod()
	people := c.newCrowd(crowdSize)
	var informers []*informer
	for range 5 {
		informers = append(informers, c.informs())
	}
	stop := c.writes()
	for _, r := range w.replicas {
		c.leaves(r, pod)
		r.start()
		until(t, time.Minute, r.name+" is back", func() bool { return w.settled(commit) })
		c.connected()
	}
	people.stop()
	people.check(t)
	names := stop()
	for n, i := range informers {
		until(t, time.Minute, fmt.Sprintf("informer %d was told of %d objects", n, len(names)), func() bool {
			missed := i.missed(names)
			w.why = fmt.Sprintf("it missed %v", missed)
			return len(missed) == 0
		})
	}
	t.Logf("five informers were told of each of %d objects once", len(names))
	c.outlives()
}

// outlives kills a replica that holds a connection to the cluster. The other connection is there already.
func (c *cluster) outlives() {
	c.t.Helper()
	at := c.connections()
	i := slices.IndexFunc(c.replicas, func(r *replica) bool { return at[r.name] > 0 })
	victim, other := c.replicas[i], c.replicas[(i+1)%len(c.replicas)]
	victim.kill()
	took := until(c.t, 10*time.Second, "the cluster is reached by way of the other connection", func() bool { return c.reached(other) == nil })
	c.t.Logf("%s was killed; %s reached the cluster after %v", victim.name, other.name, took.Round(time.Millisecond))
}

// reachedFromAfar asks each replica for what is in the cluster, and sees to it that one of them holds no connection to it.
func (c *cluster) reachedFromAfar() {
	c.t.Helper()
	at, far := c.connections(), 0
	for _, r := range c.replicas {
		if err := c.reached(r); err != nil {
			c.t.Errorf("by way of %s: %v", r.name, err)
		}
		if at[r.name] == 0 {
			far++
		}
	}
	if far != 1 {
		c.t.Errorf("%d replicas hold no connection: %v", far, at)
	}
}

// leaves has a replica end while somebody's session goes on at it, and looks at what becomes of both.
func (c *cluster) leaves(r *replica, pod string) {
	c.t.Helper()
	session := c.execs(r, pod)
	if err := session.echoes("first words"); err != nil {
		c.t.Fatalf("a session by way of %s: %v", r.name, err)
	}
	asked := time.Now()
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	lines := 0
	for tick := time.NewTicker(50 * time.Millisecond); time.Since(asked) < grace; <-tick.C {
		lines++
		if err := session.echoes(fmt.Sprint("line ", lines)); err != nil {
			c.t.Errorf("a session at %s ends %v after it was asked to: %v", r.name, time.Since(asked), err)
			break
		}
	}
	_ = session.in.Close()
	select {
	case err := <-session.ended:
		if err != nil {
			c.t.Errorf("the session at %s ends: %v", r.name, err)
		}
	case <-time.After(time.Minute):
		c.t.Errorf("the session at %s does not end", r.name)
	}
	r.wait()
	c.t.Logf("%s ended %v after it was asked to; a session answered %d lines meanwhile", r.name, time.Since(asked).Round(time.Millisecond), lines)
}
