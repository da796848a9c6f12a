package rekey

import (
	"context"
	"fmt"
	"maps"
	"os"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Cluster is a cluster that joins.
type Cluster struct {
	Name string
	Tags map[string]string
	// Age is the agent's recipient.
	Age string
}

// AddCluster lets a cluster open what the groups that its tags select can: one file for each. Groups that the person is
// no member of are left out, and named in Unreachable.
func (e *Editor) AddCluster(c Cluster) (*Plan, error) {
	ring, err := e.vault.Keyring()
	if err != nil {
		return nil, err
	}
	changes := map[string][]byte{}
	var unreachable []string
	joining := joining{keys: func(string) (string, error) { return c.Age, nil }, names: map[string]string{}}
	for _, name := range e.vault.Policy().GroupsOf(c.Name, c.Tags) {
		added, err := e.vault.Groups().Add(e.vault.Policy().Repository, ring, name, clusterMember(c.Name), joining.key)
		switch {
		case notMember(err):
			unreachable = append(unreachable, name)
		case err != nil:
			return nil, err
		default:
			maps.Copy(changes, added)
		}
	}
	plan, err := e.plan(changes, "Register cluster "+c.Name, joining.names)
	if err != nil {
		return nil, err
	}
	plan.Unreachable = unreachable
	return plan, nil
}

// RemoveCluster removes a cluster's file, and takes the cluster out of all its groups as Revoke does.
func (e *Editor) RemoveCluster(ctx context.Context, name, path string) (*Plan, error) {
	member := clusterMember(name)
	return e.rotate(ctx, e.direct(member), []groups.Member{member}, map[string][]byte{path: nil}, "Delete cluster "+name)
}

// Drift is where a group's clusters are not those that its selector picks.
type Drift struct {
	Group string
	// Join are clusters with keys that should be members, Leave are members that should not; both sorted.
	Join, Leave []string
}

// Drifts compares the groups that have selectors with the clusters' tags, which may have changed since they joined.
func (e *Editor) Drifts() ([]Drift, error) {
	f, err := fleet.Load(os.DirFS(e.repo.Root()))
	if err != nil {
		return nil, fmt.Errorf("read clusters: %w", err)
	}
	var drifts []Drift
	for _, g := range e.vault.Policy().Groups {
		group, ok := e.vault.Groups().Group(g.Name)
		if !ok || g.Clusters == nil {
			continue
		}
		d := Drift{Group: g.Name}
		for i := range f.Clusters {
			c := &f.Clusters[i]
			in := group.Has(clusterMember(c.Metadata.Name))
			wanted := c.Spec.Agent.Age != "" && g.Clusters.Matches(c.Metadata.Name, c.Spec.Tags)
			if wanted && !in {
				d.Join = append(d.Join, c.Metadata.Name)
			}
			if in && !wanted {
				d.Leave = append(d.Leave, c.Metadata.Name)
			}
		}
		if len(d.Join)+len(d.Leave) > 0 {
			drifts = append(drifts, d)
		}
	}
	return drifts, nil
}

// Join lets the clusters that drifts name join their groups. Who should leave is not touched: a group that loses a member
// gets a new identity, which is for a person to ask for.
func (e *Editor) Join(drifts []Drift) (*Plan, error) {
	ring, err := e.vault.Keyring()
	if err != nil {
		return nil, err
	}
	changes := map[string][]byte{}
	var unreachable []string
	joining := joining{keys: clusterKeys(e.repo, nil), names: map[string]string{}}
	for _, d := range drifts {
		for _, name := range d.Join {
			added, err := e.vault.Groups().Add(e.vault.Policy().Repository, ring, d.Group, clusterMember(name), joining.key)
			if notMember(err) {
				unreachable = append(unreachable, d.Group)
				break
			}
			if err != nil {
				return nil, err
			}
			maps.Copy(changes, added)
		}
	}
	plan, err := e.plan(changes, "Let the groups follow their clusters' tags", joining.names)
	if err != nil {
		return nil, err
	}
	plan.Unreachable = unreachable
	return plan, nil
}

func clusterMember(name string) groups.Member { return groups.Member{Kind: groups.Cluster, Name: name} }

// registered are the clusters that have keys and that a selector picks.
func registered(repo *workspace.Repo, s *policy.Selector) ([]groups.Member, error) {
	f, err := fleet.Load(os.DirFS(repo.Root()))
	if err != nil {
		return nil, fmt.Errorf("read clusters: %w", err)
	}
	var picked []groups.Member
	for i := range f.Clusters {
		if c := &f.Clusters[i]; c.Spec.Agent.Age != "" && s.Matches(c.Metadata.Name, c.Spec.Tags) {
			picked = append(picked, clusterMember(c.Metadata.Name))
		}
	}
	return picked, nil
}
