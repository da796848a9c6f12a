package terraform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"time"

	"github.com/pluralsh/plural/workspace/versions"
)

// Product is whose program runs a module.
type Product string

// The two that run the same modules; Any takes Terraform where both would do.
const (
	Any       Product = ""
	Terraform Product = "terraform"
	OpenTofu  Product = "tofu"
)

// Want is what a module asks of its tool.
type Want struct {
	// Product is Any, Terraform or OpenTofu; "any" is Any too.
	Product Product
	// Version is a range such as ">=1.5"; empty is any that speaks JSON as we read it.
	Version string
}

// Tool is a program that runs modules.
type Tool struct {
	Path    string
	Product Product
	Version string
}

// variable names the program, for people who keep it elsewhere than on PATH, or several of it.
const variable = "PLURAL_TERRAFORM"

// oldest is the range of versions whose JSON is read here.
const oldest = ">=1.1.0-0"

// answers bounds how long a program may take to tell its version.
const answers = 30 * time.Second

// Find looks for a tool: the program that PLURAL_TERRAFORM names, or else terraform, then tofu, on PATH. It fails with a
// *MissingError or a *VersionError.
func Find(ctx context.Context, want Want) (*Tool, error) {
	if want.Product == "any" {
		want.Product = Any
	}
	if want.Version == "" {
		want.Version = oldest
	}
	wanted, err := versions.ParseRange(want.Version)
	if err != nil {
		return nil, fmt.Errorf("find terraform: %w", err)
	}
	if named := os.Getenv(variable); named != "" {
		return chosen(ctx, named, want, wanted)
	}
	var other *Tool
	var old error
	for _, product := range []Product{Terraform, OpenTofu} {
		path, err := exec.LookPath(string(product))
		if err != nil {
			continue
		}
		tool, err := ask(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", product, err)
		}
		switch {
		case want.Product != Any && want.Product != tool.Product:
			other = cmp.Or(other, tool)
		case !fits(wanted, tool.Version):
			old = cmp.Or(old, error(&VersionError{Tool: *tool, Want: want.Version}))
		default:
			return tool, nil
		}
	}
	if old != nil {
		return nil, old
	}
	return nil, &MissingError{Product: want.Product, Instead: other}
}

// chosen is the one program that a person has named.
func chosen(ctx context.Context, name string, want Want, wanted versions.Range) (*Tool, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, &MissingError{Product: want.Product, Path: name, Cause: err}
	}
	tool, err := ask(ctx, path)
	if err != nil {
		return nil, &MissingError{Product: want.Product, Path: name, Cause: err}
	}
	if want.Product != Any && want.Product != tool.Product {
		return nil, &MissingError{Product: want.Product, Instead: tool}
	}
	if !fits(wanted, tool.Version) {
		return nil, &VersionError{Tool: *tool, Want: want.Version}
	}
	return tool, nil
}

func fits(wanted versions.Range, version string) bool {
	_, err := wanted.Newest([]string{version}, "")
	return err == nil
}

// ask is what a program says that it is. Its JSON would name the version alone, as terraform's, for either product.
func ask(ctx context.Context, path string) (*Tool, error) {
	ctx, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	command := exec.CommandContext(ctx, path, "version") //nolint:gosec // the program that a person has on PATH, or named
	command.Env = environment(nil)
	command.WaitDelay = time.Second
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its version: %w", path, err)
	}
	said := regexp.MustCompile(`(?m)^(Terraform|OpenTofu) v([0-9][0-9A-Za-z.+-]*)`).FindSubmatch(out)
	if said == nil {
		return nil, errors.New(path + " does not say that it is Terraform or OpenTofu")
	}
	tool := &Tool{Path: path, Product: Terraform, Version: string(said[2])}
	if string(said[1]) == "OpenTofu" {
		tool.Product = OpenTofu
	}
	return tool, nil
}
