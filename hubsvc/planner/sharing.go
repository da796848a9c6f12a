package planner

import "github.com/pluralsh/plural/workspace/resolve"

// sharing holds the deployments of one plan, so that clusters which run the same hold one in memory: of ten thousand
// clusters with twenty services each, most differ in few.
type sharing map[same]*resolve.Deployment

// same is what deployments have in common that are one within a plan. What neither part says, such as how a render is
// applied, is the service's own.
type same struct{ key, variant string }

// of are deployments of one cluster as they are shared. They belong to no cluster any more: Cluster is empty.
func (s sharing) of(list []resolve.Deployment) []*resolve.Deployment {
	out := make([]*resolve.Deployment, len(list))
	for i := range list {
		as := same{list[i].Key, list[i].Variant}
		if known := s[as]; known != nil {
			out[i] = known
			continue
		}
		each := list[i] // a copy: a pointer into the list would keep all of it
		each.Cluster = ""
		out[i] = &each
		if each.Key != "" { // what is held has a reason of its own
			s[as] = &each
		}
	}
	return out
}

// strip drops what is in the roots by now and what nobody else reads: of a deployment that only one cluster has, the half.
func (s sharing) strip() {
	for _, each := range s {
		each.Parameters, each.Helm, each.Tests = nil, nil, nil
	}
}
