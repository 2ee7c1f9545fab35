"""Figures as plain functions of a plan or a candidate; nothing here knows Streamlit."""
