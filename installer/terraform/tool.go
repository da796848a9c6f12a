package terraform

import (
	"context"
	"errors"
)

// Product is whose program runs a module.
type Product string

// The two that run the same modules; Any takes Terraform where both are here.
const (
	Any       Product = ""
	Terraform Product = "terraform"
	OpenTofu  Product = "tofu"
)

// Want is what a module asks of its tool.
type Want struct {
	// Product is Any, Terraform or OpenTofu; "any" is Any too.
	Product Product
	// Version is a range such as ">=1.5"; empty is any.
	Version string
}

// Tool is a program that runs modules.
type Tool struct {
	Path    string
	Product Product
	Version string
}

// Find looks for a tool: the program that PLURAL_TERRAFORM names, or else terraform, then tofu, on PATH. It fails with a
// *MissingError or a *VersionError.
func Find(ctx context.Context, want Want) (*Tool, error) { return nil, errors.ErrUnsupported }
