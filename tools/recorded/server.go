package main

import (
	"context"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// server answers terraform. What no module of ours asks for it does not have: those methods are the interface's own, nil.
type server struct {
	tfprotov6.ProviderServer
	schemas *schemas
}

func (s *server) GetMetadata(context.Context, *tfprotov6.GetMetadataRequest) (*tfprotov6.GetMetadataResponse, error) {
	out := &tfprotov6.GetMetadataResponse{ServerCapabilities: &tfprotov6.ServerCapabilities{GetProviderSchemaOptional: true}}
	for name := range maps.Keys(s.schemas.Resources) {
		out.Resources = append(out.Resources, tfprotov6.ResourceMetadata{TypeName: name})
	}
	for name := range maps.Keys(s.schemas.Data) {
		out.DataSources = append(out.DataSources, tfprotov6.DataSourceMetadata{TypeName: name})
	}
	return out, nil
}

func (s *server) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	out := &tfprotov6.GetProviderSchemaResponse{
		ServerCapabilities: &tfprotov6.ServerCapabilities{GetProviderSchemaOptional: true},
		ResourceSchemas:    map[string]*tfprotov6.Schema{}, DataSourceSchemas: map[string]*tfprotov6.Schema{},
	}
	inner, err := s.schemas.Provider.schema()
	if err != nil {
		return nil, err
	}
	out.Provider = &tfprotov6.Schema{Block: inner}
	for all, to := range map[*map[string]block]map[string]*tfprotov6.Schema{
		&s.schemas.Resources: out.ResourceSchemas, &s.schemas.Data: out.DataSourceSchemas,
	} {
		for name, b := range *all {
			inner, err := b.schema()
			if err != nil {
				return nil, err
			}
			to[name] = &tfprotov6.Schema{Block: inner}
		}
	}
	return out, nil
}

func (s *server) GetResourceIdentitySchemas(
	context.Context, *tfprotov6.GetResourceIdentitySchemasRequest,
) (*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov6.GetResourceIdentitySchemasResponse{}, nil
}

func (s *server) ValidateProviderConfig(
	_ context.Context, r *tfprotov6.ValidateProviderConfigRequest,
) (*tfprotov6.ValidateProviderConfigResponse, error) {
	return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: r.Config}, nil
}

func (s *server) ConfigureProvider(context.Context, *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	return &tfprotov6.ConfigureProviderResponse{}, nil
}

func (s *server) StopProvider(context.Context, *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse, error) {
	return &tfprotov6.StopProviderResponse{}, nil
}

func (s *server) ValidateResourceConfig(
	context.Context, *tfprotov6.ValidateResourceConfigRequest,
) (*tfprotov6.ValidateResourceConfigResponse, error) {
	return &tfprotov6.ValidateResourceConfigResponse{}, nil
}

func (s *server) ValidateDataResourceConfig(
	context.Context, *tfprotov6.ValidateDataResourceConfigRequest,
) (*tfprotov6.ValidateDataResourceConfigResponse, error) {
	return &tfprotov6.ValidateDataResourceConfigResponse{}, nil
}

func (s *server) UpgradeResourceState(
	_ context.Context, r *tfprotov6.UpgradeResourceStateRequest,
) (*tfprotov6.UpgradeResourceStateResponse, error) {
	_, t, err := of(s.schemas.Resources, r.TypeName)
	if err != nil {
		return nil, err
	}
	value, err := r.RawState.Unmarshal(t)
	if err != nil {
		return nil, err
	}
	state, err := tfprotov6.NewDynamicValue(t, value)
	return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: &state}, err
}

// ReadResource finds what was made as it was left.
func (s *server) ReadResource(_ context.Context, r *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	return &tfprotov6.ReadResourceResponse{NewState: r.CurrentState, Private: r.Private}, nil
}

func (s *server) PlanResourceChange(
	_ context.Context, r *tfprotov6.PlanResourceChangeRequest,
) (*tfprotov6.PlanResourceChangeResponse, error) {
	b, t, err := of(s.schemas.Resources, r.TypeName)
	if err != nil {
		return nil, err
	}
	prior, err := r.PriorState.Unmarshal(t)
	if err != nil {
		return nil, err
	}
	proposed, err := r.ProposedNewState.Unmarshal(t)
	if err != nil {
		return nil, err
	}
	if prior.IsNull() { // what is there has its values; what is not gets them
		if proposed, err = b.fill(proposed, unknown); err != nil {
			return nil, err
		}
	}
	planned, err := tfprotov6.NewDynamicValue(t, proposed)
	return &tfprotov6.PlanResourceChangeResponse{PlannedState: &planned}, err
}

func (s *server) ApplyResourceChange(
	_ context.Context, r *tfprotov6.ApplyResourceChangeRequest,
) (*tfprotov6.ApplyResourceChangeResponse, error) {
	b, t, err := of(s.schemas.Resources, r.TypeName)
	if err != nil {
		return nil, err
	}
	planned, err := r.PlannedState.Unmarshal(t)
	if err != nil {
		return nil, err
	}
	if planned, err = b.fill(planned, example); err != nil {
		return nil, err
	}
	state, err := tfprotov6.NewDynamicValue(t, planned)
	return &tfprotov6.ApplyResourceChangeResponse{NewState: &state}, err
}

func (s *server) ReadDataSource(_ context.Context, r *tfprotov6.ReadDataSourceRequest) (*tfprotov6.ReadDataSourceResponse, error) {
	b, t, err := of(s.schemas.Data, r.TypeName)
	if err != nil {
		return nil, err
	}
	value, err := r.Config.Unmarshal(t)
	if err != nil {
		return nil, err
	}
	if value, err = b.fill(value, example); err != nil {
		return nil, err
	}
	state, err := tfprotov6.NewDynamicValue(t, value)
	return &tfprotov6.ReadDataSourceResponse{State: &state}, err
}

// of is a recorded block with the type of its values.
func of(all map[string]block, name string) (block, tftypes.Type, error) {
	b, ok := all[name]
	if !ok {
		return b, nil, fmt.Errorf("%s is not recorded", name)
	}
	inner, err := b.schema()
	if err != nil {
		return b, nil, err
	}
	return b, inner.ValueType(), nil
}
