package planner

import (
	"io/fs"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/workspace/views"
)

// sharedViews are those of views.yaml. Mistakes there keep nothing else from working: they are shown in the place of the views.
func sharedViews(files fs.FS) v1.ViewList {
	out := v1.ViewList{Items: []v1.View{}}
	read, err := views.Load(files)
	if err != nil {
		out.Problems = mistakes(err)
		return out
	}
	for _, v := range read {
		out.Items = append(out.Items, v1.View{Key: v.Key, Name: v.Name, List: v.List, Filter: v.Filter})
	}
	return out
}
