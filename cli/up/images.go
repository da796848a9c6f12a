package up

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/cli/pkg"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/existing"
	"github.com/pluralsh/plural/installer/sideload"
	"github.com/pluralsh/plural/workspace"
)

// packed is an image of a folder, and what a package answers so that it is run.
type packed struct {
	*sideload.Image
	pkg     string
	answers map[string]any
}

// useImages has hub and agent run from the images of a folder, but for what the answers given say otherwise.
func (o *options) useImages(w *existing.Options, given *pkg.Given) error {
	if o.existing.images == "" {
		return nil
	}
	var all []packed
	for _, of := range []struct{ pkg, called string }{{pkg.HubPackage, "plural"}, {pkg.AgentPackage, "plural-agent"}} {
		image, err := sideload.Open(o.existing.images, of.called)
		if err != nil {
			return &ui.Err{
				Msg: "cannot take the images of " + o.existing.images, Cause: err.Error(), Doc: ui.DocImages, Err: err,
				Fix: "run make images in a clone, and name the folder that it writes",
			}
		}
		p := packed{image, of.pkg, map[string]any{"image": image.Repository, "tag": image.Tag}}
		for question := range p.answers {
			said, err := given.Says(of.pkg, question)
			if err != nil {
				return err
			}
			if said {
				delete(p.answers, question)
			}
		}
		given.Otherwise(of.pkg, p.answers)
		all = append(all, p)
	}
	if tag, own := all[0].Tag, strings.TrimPrefix(o.factory.Version, "v"); tag != own {
		o.factory.Say("note  the images are of %s, and this program, whose packages of hub and agent are taken, of %s",
			ui.Clean(tag), ui.Clean(own))
	}
	w.Look = func(ctx context.Context, kube dynamic.Interface) error { return o.lookForImages(ctx, kube, all) }
	ensure := w.Packages
	w.Packages = func(ctx context.Context, repo *workspace.Repo) error {
		if err := ensure(ctx, repo); err != nil {
			return err
		}
		for _, p := range all { // the repo may have had them, with other answers
			if _, err := pkg.Reanswer(ctx, o.factory, repo, p.pkg, p.answers, "digest"); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}

// lookForImages refuses to begin where nodes lack what hub and agent are to run from.
func (o *options) lookForImages(ctx context.Context, kube dynamic.Interface, all []packed) error {
	var images []*sideload.Image
	for _, p := range all {
		if p.answers["image"] != nil && p.answers["tag"] != nil { // else somebody named one that a registry has
			images = append(images, p.Image)
		}
	}
	lacks, err := sideload.Lacking(ctx, kube, images...)
	if apierrors.IsForbidden(err) {
		o.factory.Say("note  whether the nodes have the images is not known: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	var sure, unsure []ui.Problem
	for _, l := range lacks {
		problem := ui.Problem{Where: "node " + l.Node, Message: "it lacks " + l.Image.Name(), Fix: l.Command}
		if l.Platform != "" {
			problem.Message = fmt.Sprintf("it is of %s, and %s is not", l.Platform, l.Image.Name())
			problem.Fix = `make images PLATFORMS="amd64 arm64"`
		}
		if problem.Fix == "" {
			problem.Fix = viaRegistry(all[slices.IndexFunc(all, func(p packed) bool { return p.Image == l.Image })])
		}
		if l.Sure {
			sure = append(sure, problem)
		} else {
			unsure = append(unsure, problem)
		}
	}
	if len(sure) > 0 {
		return &ui.Err{
			Msg: "nodes lack the images of hub and agent: nothing was done", Problems: sure, Doc: ui.DocImages,
			Fix: "bring them there and run it again",
		}
	}
	o.sayUnsure(unsure)
	return nil
}

// sayUnsure tells of nodes that may lack an image, those together that get it by the same command.
func (o *options) sayUnsure(unsure []ui.Problem) {
	nodes := map[ui.Problem][]string{}
	var kinds []ui.Problem
	for _, p := range unsure {
		kind := ui.Problem{Message: p.Message, Fix: p.Fix}
		if nodes[kind] == nil {
			kinds = append(kinds, kind)
		}
		nodes[kind] = append(nodes[kind], p.Where)
	}
	for _, kind := range kinds {
		who := nodes[kind][0]
		if rest := len(nodes[kind]) - 1; rest > 0 {
			who = fmt.Sprintf("%s and %d more", who, rest)
		}
		o.factory.Say("note  nothing lists the images of %s; if %s: %s", ui.Clean(who), kind.Message, ui.Clean(kind.Fix))
	}
}

// viaRegistry is how nodes get an image that come and go, or whose runtime is not known to take archives.
func viaRegistry(p packed) string {
	name := p.Repository[strings.LastIndex(p.Repository, "/")+1:]
	return fmt.Sprintf("skopeo copy --all oci-archive:%s docker://REGISTRY/%s:%s, then --set %s.image=REGISTRY/%[2]s",
		p.Archive, name, p.Tag, p.pkg)
}
