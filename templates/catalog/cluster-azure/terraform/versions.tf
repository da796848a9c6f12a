terraform {
  required_version = ">= 1.5"

  required_providers {
    azurerm = {
      source  = "hashicorp/azurerm"
      version = "4.55.0"
    }
  }
}

provider "azurerm" {
  subscription_id = var.subscription

  features {
    resource_group {
      prevent_deletion_if_contains_resources = true
    }
  }
}
