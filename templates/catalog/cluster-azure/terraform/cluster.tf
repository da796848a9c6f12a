# The cluster's own identity, which may put load balancers and nodes into its subnet, and nothing else.
resource "azurerm_user_assigned_identity" "cluster" {
  name                = "${var.name}-cluster"
  location            = azurerm_resource_group.this.location
  resource_group_name = azurerm_resource_group.this.name
  tags                = var.tags
}

resource "azurerm_role_assignment" "network" {
  scope                = azurerm_subnet.nodes.id
  role_definition_name = "Network Contributor"
  principal_id         = azurerm_user_assigned_identity.cluster.principal_id
  principal_type       = "ServicePrincipal"
}

resource "azurerm_kubernetes_cluster" "this" {
  name                = var.name
  location            = azurerm_resource_group.this.location
  resource_group_name = azurerm_resource_group.this.name
  node_resource_group = "${var.name}-nodes"
  dns_prefix          = var.name
  kubernetes_version  = var.kubernetes_version
  sku_tier            = "Standard"
  tags                = var.tags

  automatic_upgrade_channel    = "patch"
  node_os_upgrade_channel      = "NodeImage"
  image_cleaner_enabled        = true
  image_cleaner_interval_hours = 48

  private_cluster_enabled           = length(var.api_cidrs) == 0
  role_based_access_control_enabled = true
  local_account_disabled            = true
  oidc_issuer_enabled               = true
  workload_identity_enabled         = true
  run_command_enabled               = false

  azure_active_directory_role_based_access_control {
    azure_rbac_enabled     = true
    admin_group_object_ids = var.admins
  }

  dynamic "api_server_access_profile" {
    for_each = length(var.api_cidrs) > 0 ? [var.api_cidrs] : []

    content {
      # Nodes come from the NAT gateway.
      authorized_ip_ranges = concat(api_server_access_profile.value, ["${azurerm_public_ip.nat.ip_address}/32"])
    }
  }

  default_node_pool {
    name                        = "nodes"
    temporary_name_for_rotation = "rotating"
    vm_size                     = var.node_type
    vnet_subnet_id              = azurerm_subnet.nodes.id
    zones                       = length(var.zones) > 0 ? var.zones : null
    auto_scaling_enabled        = true
    min_count                   = var.node_min
    max_count                   = var.node_max
    os_sku                      = "AzureLinux"
    os_disk_size_gb             = var.node_disk_gib
    host_encryption_enabled     = var.host_encryption
    node_public_ip_enabled      = false
    tags                        = var.tags

    upgrade_settings {
      max_surge = "33%"
    }
  }

  identity {
    type         = "UserAssigned"
    identity_ids = [azurerm_user_assigned_identity.cluster.id]
  }

  network_profile {
    network_plugin      = "azure"
    network_plugin_mode = "overlay"
    network_data_plane  = "cilium"
    network_policy      = "cilium"
    load_balancer_sku   = "standard"
    outbound_type       = "userAssignedNATGateway"
    pod_cidr            = var.pods_cidr
    service_cidr        = var.services_cidr
    dns_service_ip      = cidrhost(var.services_cidr, 10)
  }

  lifecycle {
    # Azure upgrades nodes after the control plane, and whoever scales the cluster has the say.
    ignore_changes = [default_node_pool[0].node_count, default_node_pool[0].orchestrator_version]

    precondition {
      condition     = var.node_max >= var.node_min
      error_message = "node_max (${var.node_max}) is less than node_min (${var.node_min})."
    }
  }

  depends_on = [
    azurerm_nat_gateway_public_ip_association.this,
    azurerm_role_assignment.network,
    azurerm_subnet_nat_gateway_association.nodes,
  ]
}

data "azurerm_client_config" "me" {}

# With Azure's own roles nobody may do anything at first, not even who has made the cluster.
resource "azurerm_role_assignment" "maker" {
  scope                = azurerm_kubernetes_cluster.this.id
  role_definition_name = "Azure Kubernetes Service RBAC Cluster Admin"
  principal_id         = data.azurerm_client_config.me.object_id
}
